"""What the host can isolate: the probe's report, without privileges, on the command line."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ec2_agent.sandbox import seccomp, syscalls
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxRefused
from ec2_agent.sandbox.probe import probe
from tests.sandbox.running import strongest

REPOSITORY = Path(__file__).parent.parent.parent
NOBODY = 12345


def command(*arguments: str, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    """Run the command line with an interpreter that every user may execute."""
    python = "/usr/bin/python3" if prefix else sys.executable
    return subprocess.run(
        [*prefix, python, "-B", "-m", "ec2_agent.sandbox", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_probe_is_json_and_says_what_to_do() -> None:
    report = probe()
    assert report.isolation in ("full", "namespaces")
    features = json.loads(json.dumps(report.as_json()))
    assert {"feature", "available", "detail", "fix"} == set(features[0])
    for feature in features:
        assert feature["detail"]
        assert bool(feature["fix"]) != feature["available"], feature


def test_full_is_refused_where_it_cannot_be_had() -> None:
    if strongest() == "full":
        pytest.skip("this host can")
    with pytest.raises(SandboxRefused, match="cgroup v2"):
        Launcher(isolation="full", slots=1)


def test_the_command_line_runs_a_command() -> None:
    base = ("run", "--isolation", strongest(), "--timeout-s", "20")
    done = command(*base, "--env", "A=b", "--", "sh", "-c", "echo $A; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "b\n", "err\n")
    done = command(*base, "--json", "--", "sh", "-c", "echo out; kill -9 $$")
    told = json.loads(done.stdout)
    assert (done.returncode, told["signal"], done.stderr) == (137, 9, "out\n")
    assert told["usage"]["wall_s"] > 0
    done = command("run", "--isolation", strongest(), "--timeout-s", "0.2", "--", "sleep", "9")
    assert done.returncode == 124
    done = command(*base, "--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "no-such-command: No such file or directory\n",
    )
    done = command(*base, "--cores", "3-1", "--", "true")
    assert done.returncode == 125
    assert "is descending" in done.stderr


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become nobody"
)
def test_without_privileges() -> None:
    """A laptop's user: same sandbox, the user's own uid, no cgroup without delegation."""
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    script = (
        "id -u; cat /proc/self/uid_map; grep -c . /proc/self/net/dev; touch /etc/x; "
        "grep CapBnd /proc/self/status; ls /proc | grep -v '[0-9]'"
    )
    done = command("run", "--isolation", "namespaces", "--", "sh", "-c", script, prefix=user)
    if "Operation not permitted" in done.stderr and "refused" in done.stderr:
        pytest.skip("this host forbids user namespaces to users")
    lines = done.stdout.split("\n")
    assert lines[0] == "1000"
    assert lines[1].split()[0] == "1000"
    assert lines[2:5] == ["3", "CapBnd:\t0000000000000000", "self"], done
    assert "Read-only file system" in done.stderr
    done = command("run", "--", "true", prefix=user)
    assert done.returncode == 125
    assert "cgroup" in done.stderr
    report = json.loads(command("probe", prefix=user).stdout)
    assert [f["available"] for f in report if f["feature"].startswith("own ")] == [False, False]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to become nobody"
)
def test_without_privileges_a_job_has_its_bundle_alone() -> None:
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    script = (
        "cat /opt/joblane/type/code; ls -A /opt/joblane/bundles; touch /opt/joblane/type/x; "
        "grep -c /opt/joblane /proc/self/mountinfo"
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        for bundle in ("aaaa", "bbbb"):
            (Path(name) / bundle).mkdir()
            (Path(name) / bundle / "code").write_text(bundle + "\n")
            os.chown(Path(name) / bundle, NOBODY, NOBODY)  # its own user may write to it outside
        Path(name).chmod(0o755)
        where = ("--isolation", "namespaces", "--bundle", f"{name}/aaaa")
        done = command("run", *where, "--", "sh", "-c", script, prefix=user)
    if "Operation not permitted" in done.stderr and "refused" in done.stderr:
        pytest.skip("this host forbids user namespaces to users")
    assert done.stdout == "aaaa\n1\n", done
    assert "Read-only file system" in done.stderr


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to have groups"
)
def test_the_agents_groups_stay_the_agents() -> None:
    groups = ("setpriv", "--groups", "4,27")
    done = command("run", "--isolation", strongest(), "--", "id", "-G", prefix=groups)
    assert done.stdout == "1000\n"


def test_no_call_is_both_allowed_and_refused() -> None:
    assert set(syscalls.ALLOWED) & set(syscalls.REFUSED) == set()
    assert len(set(syscalls.ALLOWED)) == len(syscalls.ALLOWED)
    assert len(set(syscalls.REFUSED)) == len(syscalls.REFUSED)


def test_the_security_page_counts_right() -> None:
    page = (REPOSITORY / "docs" / "explanation" / "security.md").read_text()
    assert f"{len(syscalls.ALLOWED)} calls allowed by name, {len(syscalls.REFUSED)} refused" in page


def test_every_name_in_the_lists_is_a_system_call_somewhere() -> None:
    """A misspelt name would be left out silently, which in the allowed list is a bug."""
    library = seccomp.Library()
    newer_than_libseccomp = {  # 2.5.4 of Debian 12 does not know them yet
        "fchmodat2", "cachestat", "map_shadow_stack", "futex_wait", "futex_wake", "futex_requeue",
        "mseal", "getxattrat", "setxattrat", "listxattrat", "removexattrat", "uretprobe",
        "riscv_hwprobe", "listmount", "statmount", "lsm_set_self_attr",
    }  # fmt: skip
    unknown = {
        name for name in (*syscalls.ALLOWED, *syscalls.REFUSED) if library.number(name) == -1
    }
    assert unknown <= newer_than_libseccomp


def test_a_missing_libseccomp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "SONAME", "libnothing.so.9")
    with pytest.raises(SandboxRefused, match="libseccomp2"):
        seccomp.compile_filters()


def test_the_launcher_has_nothing_of_the_agents_environment(launcher: Launcher) -> None:
    """Its one variable makes slots inherit what the dynamic loader has looked up."""
    assert Path(f"/proc/{launcher.pid}/environ").read_bytes() == b"LD_BIND_NOW=1\0"
