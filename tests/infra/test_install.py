"""The script that installs an agent, run against stand-ins for the system's programs."""

import hashlib
import json
import os
import re
import subprocess
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from infra.agent_install import BootValues, Installation, Setup
from infra.assets import archive
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.table import decode, encode
from joblane.config.fleet import FleetState
from joblane.fleet.absence import BootFailure, last_boot_failure
from joblane.state.lease import Heartbeat


def installation(tmp_path: Path, release: str, **changes: Any) -> Installation:
    values: dict[str, Any] = {
        "deployment": "joblane",
        "fleet": "main",
        "queues": ("default",),
        "threads": 8,
        "allow_host_network": False,
        "egress_allow": (),
        "egress_refuse": ("203.0.113.0/24",),
        "egress_mbps": None,
        "max_memory_mb": None,
        "disk_gb": None,
        "labels": {},
        "etc": (),
        "facts": {},
        "state": FleetState(),
        "release": release,
        "bundle_url": "s3://bucket/bundle.zip",
        "bundle_sha256": hashlib.sha256().hexdigest(),  # of the stand-in's, which is empty
        "region": "eu-west-1",
        "home": str(tmp_path / "opt"),
        "units": str(tmp_path),
    }
    return Installation(**{**values, **changes})


def test_a_release_replaces_no_instance_and_is_upgraded_to_at_once(tmp_path: Path) -> None:
    one, two = installation(tmp_path, "one"), installation(tmp_path, "two")
    assert one.fingerprint() != two.fingerprint()
    # Numbers of tokens differ from synthesis to synthesis.
    again = installation(tmp_path, "one", bundle_url="${Token[TOKEN.7]}", region="${Token[8]}")
    assert one.fingerprint() == again.fingerprint()
    # The user data is part of the launch template.
    assert {"document", "agents_table", "region", "packages", "setup"} == vars(
        BootValues("", "", "")
    ).keys() - {"console", "home", "instance_id", "software_s"}


def prepare(tmp_path: Path) -> None:
    """Write stand-ins for the system's programs, which record how they are called in `asked`."""
    tools = tmp_path / "tools"
    asked = tmp_path / "asked"
    asked.write_text("", encoding="utf-8")
    (tmp_path / "opt").mkdir(exist_ok=True)
    (tmp_path / "opt" / "prepared").touch()
    (tmp_path / "state").write_text("active", encoding="utf-8")
    if not tools.exists():
        tools.mkdir()
        stand_ins = {
            "dnf": f"[ ! -e {tmp_path}/unreachable ] || {{ rm {tmp_path}/unreachable; exit 1; }}",
            "sleep": "",
            "journalctl": "echo cannot announce this agent",
            "systemctl": f'case "$1" in\nis-active) cat {tmp_path}/state ;;\n'
            f"restart) [ ! -e {tmp_path}/broken ] ;;\nesac",
            # `aws s3 cp ... URL FILE`
            "aws": 'for file; do :; done; : >"$file"',
            # `python -m venv --without-pip DIR` and `python -m zipfile -e ZIP DIR`
            "python3.12": 'for dir; do :; done; case "$2" in\n'
            'venv) mkdir -p "$dir/bin" "$dir/lib/python3.12/site-packages" ;;\n'
            'zipfile) mkdir -p "$dir/lib/client" ;; esac',
        }
        for name, body in stand_ins.items():
            tool = tools / name
            tool.write_text(f'#!/bin/sh\necho {name} "$@" >>{asked}\n{body}\n', encoding="utf-8")
            tool.chmod(0o755)


def start(tmp_path: Path, script: list[str]) -> "subprocess.Popen[str]":
    """Start the script; `prepare` first."""
    return subprocess.Popen(
        ["/bin/sh", "-c", "\n".join(script)],
        env={"PATH": f"{tmp_path / 'tools'}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waits_for_a_lock(pid: int) -> bool:
    """Whether a program that this one has started is `flock`."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return any(Path(f"/proc/{n}/comm").read_text(encoding="utf-8") == "flock\n" for n in children)


def install(tmp_path: Path, script: list[str], *, state: str = "active") -> list[str]:
    """Run the script with the stand-ins, the agent in a state; return what it asked of them."""
    prepare(tmp_path)
    (tmp_path / "state").write_text(state, encoding="utf-8")
    run = start(tmp_path, script)
    _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, "")
    return (tmp_path / "asked").read_text(encoding="utf-8").splitlines()


def test_the_script_installs_then_changes_nothing_then_upgrades(tmp_path: Path) -> None:
    first = install(tmp_path, installation(tmp_path, "one").script())
    again = install(tmp_path, installation(tmp_path, "one").script())
    second = install(tmp_path, installation(tmp_path, "two").script())

    restart = "systemctl restart joblane-agent"
    assert (
        "dnf install --quiet --assumeyes python3.12 libseccomp nftables e2fsprogs xfsprogs" in first
    )
    assert restart == first[-1]
    assert again == [
        "systemctl start joblane-disk",
        "systemctl --quiet enable joblane-agent",
        "systemctl is-active joblane-agent",
    ]
    assert restart == second[-1]
    home = tmp_path / "opt"
    # Bytecode for what starts, and without docstrings for the agent: its unit may not write it.
    compiled = [line for line in first if " compileall " in line]
    assert len(compiled) == 1
    assert {"-o 0", "-o 2", f"-p {home}/releases/one"} <= set(re.findall(r"-[op] \S+", compiled[0]))
    assert home / "releases/two" == (home / "current").resolve()
    assert (home / "current/lib/python3.12/site-packages/client").is_dir()
    assert (
        (home / "bin/joblane")
        .read_text(encoding="utf-8")
        .startswith(f"#!{home}/current/bin/python\n")
    )
    assert {"one", "two"} == {release.name for release in (home / "releases").iterdir()}


@pytest.mark.parametrize("state", ["active", "activating", "failed"])
def test_the_script_fails_when_the_agent_does_not_work(tmp_path: Path, state: str) -> None:
    """State Manager and the user data hear of it, and why."""
    release = "one"
    if state != "active":  # a repeated run, of the same release
        install(tmp_path, installation(tmp_path, release).script())
    prepare(tmp_path)
    (tmp_path / "state").write_text(state, encoding="utf-8")
    (tmp_path / "broken").touch()
    run = start(tmp_path, installation(tmp_path, release).script())
    out, _ = run.communicate(timeout=60)
    assert 1 == run.returncode
    said = "the agent of release one does not work: cannot announce this agent"
    assert said == out.splitlines()[-1]


def test_a_repository_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / "unreachable").touch()
    asked = install(tmp_path, installation(tmp_path, "one").script())
    assert 2 == sum(line.startswith("dnf install") for line in asked)
    assert "sleep 2" in asked
    assert (tmp_path / "opt" / "current").resolve().name == "one"


def test_user_data_and_state_manager_may_install_at_once(tmp_path: Path) -> None:
    script = installation(tmp_path, "one").script()
    # The first run stops in the middle until the second has asked for the lock.
    prepare(tmp_path)
    slow = tmp_path / "tools" / "dnf"
    slow.write_text(
        f"#!/bin/sh\necho dnf >>{tmp_path}/asked\nread line <{tmp_path}/go\n", encoding="utf-8"
    )
    os.mkfifo(tmp_path / "go")
    runs = [start(tmp_path, script)]
    wait_until(lambda: "dnf" in (tmp_path / "asked").read_text(encoding="utf-8"))
    runs.append(start(tmp_path, script))
    wait_until(lambda: waits_for_a_lock(runs[1].pid))
    (tmp_path / "go").write_text("\n", encoding="utf-8")
    for run in runs:
        out, err = run.communicate(timeout=30)
        assert (0, "") == (run.returncode, err), out
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert 1 == asked.count("dnf")
    assert 1 == asked.count("systemctl restart joblane-agent")
    release = tmp_path / "opt" / "releases" / "one"
    assert {"bin", "lib"} == {path.name for path in release.iterdir()}


def boot(tmp_path: Path, *, failures: int = 0, **software: Any) -> tuple[int, list[str]]:
    """Run the user data; its first `failures` attempts to install fail. Returns code and calls.

    What `s3 cp` fetches is in the file `fetched`.
    """
    prepare(tmp_path)
    for name in ("instance-id", "console"):
        (tmp_path / name).write_text("i-0123456789abcdef0", encoding="utf-8")
    document = installation(tmp_path, "one").document()
    (tmp_path / "document").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "failures").write_text("x" * failures, encoding="utf-8")
    aws = f"""#!/bin/sh
echo aws "$@" >>{tmp_path}/asked
for last; do :; done
case "$1 $2" in
"ssm get-document")
  if [ -s {tmp_path}/failures ]; then
    printf %s "$(cut -c 2- {tmp_path}/failures)" >{tmp_path}/failures
    echo "AccessDenied: not yet" >&2
    echo >&2
    exit 254
  fi
  cat {tmp_path}/document ;;
"s3 cp") case "$last" in */setup) cat {tmp_path}/fetched ;; esac >"$last" ;;
"dynamodb put-item")
  while [ "$1" != --item ]; do shift; done
  cp "${{2#file://}}" {tmp_path}/row.json ;;
esac
"""
    (tmp_path / "tools" / "aws").write_text(aws, encoding="utf-8")
    text = BootValues(
        document="joblane-main-agent",
        agents_table="joblane-agents",
        region="eu-west-1",
        home=str(tmp_path / "opt"),
        console=str(tmp_path / "console"),
        instance_id=str(tmp_path / "instance-id"),
        **software,
    ).user_data()
    run = start(tmp_path, text.splitlines())
    run.communicate(timeout=60)
    return run.returncode, (tmp_path / "asked").read_text(encoding="utf-8").splitlines()


def test_an_instance_installs_while_it_boots(tmp_path: Path) -> None:
    code, asked = boot(tmp_path)
    assert 0 == code
    assert asked[0].startswith("aws ssm get-document --region eu-west-1 --name joblane-main-agent")
    assert "systemctl restart joblane-agent" == asked[-1]
    assert not [line for line in asked if "dynamodb" in line]


def test_an_installation_that_failed_is_repeated(tmp_path: Path) -> None:
    code, asked = boot(tmp_path, failures=2)
    assert 0 == code
    assert ["sleep 5", "sleep 15"] == [line for line in asked if line.startswith("sleep")]
    assert "systemctl restart joblane-agent" == asked[-1]


def test_why_an_installation_failed_stands_in_the_agents_row_and_on_the_console(
    tmp_path: Path,
) -> None:
    began_ms = int(time.time() * 1000)
    code, asked = boot(tmp_path, failures=99)
    assert 1 == code
    assert not [line for line in asked if line.startswith("systemctl")]
    console = (tmp_path / "console").read_text(encoding="utf-8")
    assert "this instance failed to install its agent: AccessDenied: not yet\n" in console
    row = read_report(tmp_path)
    assert "failed to install its agent: AccessDenied: not yet" == row.trouble
    assert not row.alive(row.beat_ms)
    assert began_ms <= row.beat_ms <= time.time() * 1000


def read_report(tmp_path: Path) -> Heartbeat:
    """The row of the agent that the user data has written."""
    row = decode(json.loads((tmp_path / "row.json").read_text(encoding="utf-8")))
    store = AgentStore(cast("Any", OneRow(row)), "joblane-agents")
    shown = store.get("i-0123456789abcdef0")
    assert shown is not None
    return shown


def setup_file(tmp_path: Path, *lines: str) -> Setup:
    """A setup file in the bucket."""
    text = "\n".join(["#!/bin/sh", *lines, ""]).encode()
    (tmp_path / "fetched").write_bytes(text)
    return Setup("s3://assets/setup.sh", hashlib.sha256(text).hexdigest())


def test_packages_and_setup_come_before_the_agent_and_once(tmp_path: Path) -> None:
    setup = setup_file(tmp_path, f"echo setup as $(id -u) >>{tmp_path}/asked", "read line || true")
    code, asked = boot(tmp_path, packages=("ffmpeg-free", "git-2.40.1"), setup=setup)
    assert 0 == code
    done = [line for line in asked if line.startswith(("dnf", "aws s3", "setup"))]
    assert "systemctl restart joblane-agent" == asked[-1]
    assert done == [
        "dnf install --quiet --assumeyes ffmpeg-free git-2.40.1",
        f"aws s3 cp --only-show-errors --region eu-west-1 {setup.url} {tmp_path}/opt/setup",
        f"setup as {os.getuid()}",
        "dnf install --quiet --assumeyes python3.12 libseccomp nftables e2fsprogs xfsprogs",
        next(line for line in done if "bundle.zip" in line),
    ]
    # An installation that fails is repeated, and the setup is not.
    code, asked = boot(tmp_path, failures=2, setup=setup)
    assert (0, 1) == (code, asked.count(f"setup as {os.getuid()}"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["echo one", "echo no GPU here >&2", "echo", "exit 3"], "exit code 3: no GPU here"),
        (["exit 3"], "exit code 3"),
        (["printf 'a\\033[31mb\\377\\n'", "exit 1"], "exit code 1: a [31mb "),
        (["echo waits", "exec tail -f /dev/null"], "not done after 1 s: waits"),
    ],
)
def test_an_instance_whose_setup_fails_says_so_and_gets_no_agent(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    slow = {"software_s": 1} if "not done" in said else {}
    code, asked = boot(tmp_path, setup=setup_file(tmp_path, *lines), **slow)
    assert 1 == code
    row = read_report(tmp_path)
    assert f"failed its setup: {said}" == row.trouble
    # As the scaler reads it, for `joblane why`.
    failure = BootFailure(row.name, row.beat_ms, row.trouble)
    assert failure == last_boot_failure([row])
    console = (tmp_path / "console").read_text(encoding="utf-8", errors="replace")
    assert "this instance failed its setup: " in console
    assert not [line for line in asked if line.startswith(("systemctl", "aws ssm"))]
    # State Manager comes as well, and each half hour again.
    again = start(tmp_path, installation(tmp_path, "one").script())
    out, _ = again.communicate(timeout=60)
    assert (0, True) == (again.returncode, "nothing is installed" in out)
    assert not [line for line in asked if line.startswith("systemctl")]
    assert {"setup"} == {path.name for path in (tmp_path / "opt").iterdir()}


def test_packages_that_cannot_be_installed_are_tried_again_and_then_named(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "tools" / "dnf").write_text(
        f"#!/bin/sh\necho dnf >>{tmp_path}/asked\n"
        "echo 'Error: Unable to find a match: nosuch' >&2\nexit 1\n",
        encoding="utf-8",
    )
    code, asked = boot(tmp_path, packages=("nosuch",))
    assert 1 == code
    assert 5 == asked.count("dnf")
    said = "exit code 1: Error: Unable to find a match: nosuch"
    assert f"failed to install its packages: {said}" == read_report(tmp_path).trouble
    assert not [line for line in asked if line.startswith(("systemctl", "aws ssm"))]


def test_a_forged_setup_file_is_not_run(tmp_path: Path) -> None:
    setup = setup_file(tmp_path, "exit 0")
    setup_file(tmp_path, f"echo forged >>{tmp_path}/asked")
    code, asked = boot(tmp_path, setup=setup)
    assert 1 == code
    assert "forged" not in asked
    trouble = read_report(tmp_path).trouble or ""
    assert trouble.startswith("failed to fetch its setup: exit code 1: sha256sum: WARNING: ")


@dataclass
class OneRow:
    """A table with one row."""

    row: dict[str, Any]

    def get_item(self, *, Key: Any, **_: Any) -> dict[str, Any]:  # noqa: N803 - boto's name
        """Read it by its key."""
        key = decode(Key)
        return {"Item": encode(self.row)} if key.items() <= self.row.items() else {}


def test_a_forged_bundle_is_not_installed(tmp_path: Path) -> None:
    install(tmp_path, installation(tmp_path, "one").script())
    forged = installation(tmp_path, "two", bundle_sha256=hashlib.sha256(b"ours").hexdigest())
    with pytest.raises(AssertionError, match="NOT match"):
        install(tmp_path, forged.script())
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "systemctl" not in asked
    assert "zipfile" not in asked
    releases = tmp_path / "opt" / "releases"
    assert ["one"] == [path.name for path in releases.iterdir()]
    assert releases / "one" == (tmp_path / "opt" / "current").resolve()


def test_the_archive_of_a_bundle_is_the_same_whenever_it_is_made(tmp_path: Path) -> None:
    made = []
    for name, at_s in (("one", 1e9), ("two", 1.5e9)):
        (tmp_path / name / "lib").mkdir(parents=True)
        for file in ("b.py", "a.py"):
            (tmp_path / name / "lib" / file).write_text(file, encoding="utf-8")
            os.utime(tmp_path / name / "lib" / file, (at_s, at_s))
        made.append(archive(tmp_path / name))
    assert made[0].sha256 == made[1].sha256
    with zipfile.ZipFile(made[0].path) as bundle:
        assert ["lib/a.py", "lib/b.py"] == bundle.namelist()
