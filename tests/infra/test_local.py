"""Processes and ports of the local cloud: they end with the run, and errors are one line."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from joblane.config import Config
from scripts.local import alone, deploy, emulator, keeping, processes, up
from scripts.local.agent import Host
from scripts.local.emulator import bind, start_ministack
from scripts.local.errors import LocalError
from scripts.local.processes import Process, end_leftovers, wait_until
from scripts.local.supervisor import RESTART_S
from tests.infra.synthesis import ROOT

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def start(tmp_path: Path, code: str) -> Process:
    return Process.start("tried", [sys.executable, "-c", code], run_dir=tmp_path, env={})


def first_line(process: Process) -> str:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        text = Path(process.log).read_text(encoding="utf-8")
        if text.endswith("\n"):
            return text.splitlines()[0]
        time.sleep(0.01)
    raise AssertionError("it printed nothing")


def exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone(pid: int) -> bool:
    """Whether it ends soon: a killed process takes a moment to be one."""
    end = time.monotonic() + 5
    while exists(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not exists(pid)


@contextmanager
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.parametrize("grace_s", [0, 0.1])
def test_a_process_that_will_not_end_is_killed_with_its_children(tmp_path: Path, grace_s: float):
    process = start(tmp_path, STUBBORN)
    child = int(first_line(process))
    assert process.is_alive()

    process.stop(grace_s=grace_s)

    assert not process.is_alive()
    assert gone(child)


def test_a_process_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        "import os, signal, time\n"
        # Not print: the signal may come while it still writes 'ready'.
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'asked\\n'), os._exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)",
    )
    first_line(process)

    process.stop(grace_s=10)

    assert Path(process.log).read_text(encoding="utf-8").splitlines() == ["ready", "asked"]


def test_what_left_its_session_is_found_by_its_mark(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(600)'], start_new_session=True).pid, flush=True)"
    )
    process = start(tmp_path, code)
    lost = int(first_line(process))
    process.wait(10)
    assert exists(lost)

    end_leftovers(tmp_path)

    assert gone(lost)


def test_a_process_id_used_again_is_not_taken_for_ours(tmp_path: Path) -> None:
    process = start(tmp_path, "import time; time.sleep(600)")
    processes.save([process], tmp_path / "saved")
    (ours,) = processes.load(tmp_path / "saved")
    other = Process(process.what, process.pid, process.started - 1, process.log)
    try:
        assert ours.is_alive()
        assert not other.is_alive()
        other.stop(grace_s=0.1)
        assert process.is_alive()
    finally:
        process.stop(grace_s=1)


def test_an_exit_code_is_read_and_a_slow_process_is_not_waited_for(tmp_path: Path) -> None:
    assert 3 == start(tmp_path, "raise SystemExit(3)").wait(10)
    slow = start(tmp_path, "import time; time.sleep(600)")
    try:
        with pytest.raises(LocalError, match="did not end within 0 s"):
            slow.wait(0.05)
    finally:
        slow.stop(grace_s=1)


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with bind() as server:
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(LocalError, match=f"port {port} .* --port N"):
            bind(port)


def test_the_usual_port_gives_way_to_the_next_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with listening() as taken:
        monkeypatch.setattr(emulator, "DEFAULT_PORT", taken)
        monkeypatch.setattr(emulator, "USUAL_PORTS", 1)
        with emulator.bind_usual(said.append) as server:
            port = server.getsockname()[1]
    assert [f"Port {taken} is taken by another program; using port {port}"] == said
    monkeypatch.setattr(emulator, "DEFAULT_PORT", port)
    with emulator.bind_usual(said.append) as server:
        assert port == server.getsockname()[1]
    assert 1 == len(said), "the usual port needs no words"


FAILS_TWICE = """
import os, pathlib, signal, sys, time
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "run ")
signal.signal(signal.SIGHUP, lambda *_: os._exit(75))
print("up", flush=True)
if len(runs.read_text().split()) < 3:
    sys.exit(1)
time.sleep(600)
"""


def test_an_agent_that_fails_is_started_again_until_it_is_stopped(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.write_text("")
    code = (
        "import sys; from scripts.local.supervisor import Supervisor; "
        f"sys.exit(Supervisor([sys.executable, '-c', {FAILS_TWICE!r}, {str(runs)!r}], 0.01).run())"
    )
    env = {"PYTHONPATH": str(ROOT)}
    process = Process.start("kept", [sys.executable, "-c", code], run_dir=tmp_path, env=env)

    def log() -> str:
        return Path(process.log).read_text(encoding="utf-8")

    def ran(times: int) -> bool:
        return log().count("up\n") == times

    try:
        assert wait_until(lambda: ran(3), 30)
        os.kill(process.pid, signal.SIGHUP)  # a restart, as of the unit
        assert wait_until(lambda: ran(4), 30)
    finally:
        process.stop(10)
    assert -signal.SIGTERM % 256 == process.wait(10)
    assert ["1", "1", "75"] == re.findall(r"ended with (\d+); starts again", log())


def test_an_agent_that_has_drained_is_not_started_again() -> None:
    supervisor = [sys.executable, str(ROOT / "scripts/local/supervisor.py"), "true"]
    assert 0 == subprocess.run(supervisor, timeout=60, check=False).returncode


def test_the_pause_before_a_start_is_that_of_the_unit() -> None:
    unit = (ROOT / "infra/agent/joblane-agent.service").read_text(encoding="utf-8")
    assert f"\nRestartSec={RESTART_S:.0f}\n" in unit


@pytest.mark.parametrize(
    ("isolation", "lacks", "expected"),
    [
        ("full", (), ""),
        (
            "namespaces",
            ("cgroup v2: not mounted",),
            """
What this host cannot limit or give (joblane doctor says how to change it):

  memory, CPU, processes and disk rates of a job: they are not limited
  cgroup v2: not mounted
""",
        ),
    ],
    ids=["everything", "no cgroup v2"],
)
def test_what_a_host_cannot_limit_is_said_at_the_end(
    monkeypatch: pytest.MonkeyPatch, isolation: str, lacks: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setattr(up, "examine_host", lambda: Host(isolation, lacks))
    assert expected == up.describe_host()


def test_a_second_agent_needs_a_deployment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keeping, "PROCESSES", tmp_path / "processes.json")
    monkeypatch.setattr(sys, "argv", ["alone"])
    with pytest.raises(LocalError, match="scripts/up starts one"):
        alone.main()


@pytest.mark.parametrize("script", ["up", "demo"])
def test_a_script_whose_port_is_in_use_says_so_and_leaves_nothing(script: str) -> None:
    before = set((ROOT / ".local").glob(f"{script}-*"))  # of whoever runs it in this checkout
    with listening() as port:
        done = subprocess.run(
            [sys.executable, "-m", f"scripts.local.{script}", "--port", str(port)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert 1 == done.returncode
    assert (
        f"scripts/{script}: port {port} on 127.0.0.1 cannot be had (Address already in use); "
        "choose another one with --port N"
    ) == done.stderr.splitlines()[-1]
    assert set((ROOT / ".local").glob(f"{script}-*")) <= before


def test_a_dead_emulator_is_reported_by_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no module named ministack\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(emulator, "PYTHON", fake)
    with bind() as server:
        with pytest.raises(LocalError, match="MiniStack died: no module named ministack"):
            start_ministack(tmp_path, server)

        monkeypatch.setattr(emulator, "PYTHON", tmp_path / "absent")
        with pytest.raises(LocalError, match=r"is not installed; run scripts/setup"):
            start_ministack(tmp_path, server)


def test_last_words_are_of_the_present_process(tmp_path: Path) -> None:
    for word in "earlier", "now":
        process = start(tmp_path, f"print('{word}')")
        process.wait(10)
    assert ("now", "earlier\nnow\n") == (process.last_words(), Path(process.log).read_text())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("[broken", r"is not TOML: Expected ']'"),
        ("[fleets.second]", "the fleet main and no other; this names main, second"),
        ("[queues.more]\nthread = 1", "queues.more.thread: unknown key; allowed here: "),
    ],
)
def test_an_error_in_the_local_configuration_names_the_file_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, error: str
) -> None:
    text = deploy.CONFIG.read_text(encoding="utf-8")
    (tmp_path / "changed.toml").write_text(f"{text}\n{change}\n", encoding="utf-8")
    monkeypatch.setattr(deploy, "CONFIG", tmp_path / "changed.toml")
    with pytest.raises(LocalError) as raised:
        deploy.synthesize(tmp_path)
    assert re.search(f"scripts/local/joblane.toml: .*{error}", str(raised.value))


def test_the_local_configuration_is_valid_and_for_this_machine() -> None:
    config = Config.model_validate(tomllib.loads(deploy.local_config("aarch64")))

    version = sys.version_info
    assert ("arm64", f"python{version.major}.{version.minor}") == (
        config.functions.architecture,
        config.functions.runtime,
    )
    assert {"arm64"} == {fleet.architecture for fleet in config.fleets.values()}
    assert ("destroy", {"demo", "other", "small", "limited"}) == (
        config.removal,
        set(config.tenants),
    )
    # Every queue, for it is where the local agents have their role from.
    assert {"main": set(config.queues)} == {
        name: set(fleet.queues) for name, fleet in config.fleets.items()
    }
