"""Fact commands with the host's view: no privileges, nothing of the agent's, and an end in time."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.facts import host_command
from ec2_agent.facts.command import PIDS, CommandFailed
from ec2_agent.facts.host_command import ENVIRONMENT, run_on_host
from ec2_agent.sandbox import kernel, uids
from tests.sandbox.running import PYTHON, alive, marker

root = pytest.mark.skipif(os.geteuid() != 0, reason="only the agent of an instance is root")


def fact(script: str, timeout_s: float = 30.0) -> str:
    """Run a shell script with the host's view."""
    return run_on_host(("/bin/sh", "-c", script), timeout_s).decode()


def failure(script: str, timeout_s: float = 30.0) -> str:
    """Why a shell script with the host's view fails."""
    with pytest.raises(CommandFailed) as failed:
        fact(script, timeout_s)
    return str(failed.value)


@pytest.fixture(name="groups_of_the_agent")
def _groups_of_the_agent() -> Iterator[int]:
    """A group that this process, as an agent, has in addition."""
    before, more = os.getgroups(), 4242
    os.setgroups([*before, more])
    yield more
    os.setgroups(before)


@root
def test_it_sees_the_files_the_processes_and_the_network_of_the_host(tmp_path: Path) -> None:
    assert "6.1\n" == fact("echo ignored >&2; echo 6.1")
    assert Path("/etc/hostname").read_text() == fact("cat /etc/hostname")
    assert f"{os.getpid()}\n" == fact(f"test -d /proc/{os.getpid()} && echo {os.getpid()}")
    names = {name for _, name in socket.if_nameindex()}
    assert names == {*fact("ls /sys/class/net").split()}
    tmp_path.chmod(0o755)
    open_file = tmp_path / "inventory"
    open_file.write_text("rack 7")
    open_file.chmod(0o644)
    parents = [place for place in tmp_path.parents if not place.stat().st_mode & 0o001]
    if not parents:
        assert "rack 7" == fact(f"cat {open_file}")


@root
def test_it_has_no_privileges(tmp_path: Path, groups_of_the_agent: int) -> None:
    status = fact(
        "id -u; id -G; grep -E '^(Cap(Eff|Prm|Inh|Bnd|Amb)|NoNewPrivs):' /proc/self/status"
    )
    uid, groups, *lines = status.splitlines()
    found = dict(line.split(":\t") for line in lines)
    assert groups_of_the_agent in os.getgroups()
    assert (str(uids.FACTS), str(uids.FACTS)) == (uid, groups)
    assert {"0" * 16} == {value for name, value in found.items() if name.startswith("Cap")}
    assert "1" == found["NoNewPrivs"]
    secret = tmp_path / "credentials"
    secret.write_text("the agent's own")
    secret.chmod(0o600)
    assert "Permission denied" in failure(f"cat {secret}")
    assert "Permission denied" in failure(f"cat /proc/{os.getpid()}/environ")
    assert "No such process" in failure(f"kill -0 {os.getpid()}")


@root
def test_it_sees_no_variable_and_no_descriptor_of_the_agent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the agent's own")
    seen = dict(line.split("=", 1) for line in fact("env -u _").splitlines())
    assert ENVIRONMENT.items() <= seen.items()
    assert seen.keys() - ENVIRONMENT.keys() <= {"PWD", "SHLVL", "OLDPWD"}
    with socket.socket() as held:
        os.set_inheritable(held.fileno(), True)
        held_as = os.readlink(f"/proc/self/fd/{held.fileno()}")
        assert held_as not in fact("ls -l /proc/self/fd")


@root
def test_one_that_hangs_is_killed_in_its_time_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_command, "LATE_S", 600.0)  # its own limit ends it, or pytest this test
    sleeps = marker()
    script = f"trap '' TERM; (setsid sleep {sleeps} &) ; while :; do sleep {sleeps}; done"
    assert "it did not end within its timeout_s of 0.5" == failure(script, 0.5)
    assert [] == alive(sleeps)


@root
def test_one_that_hangs_in_a_session_of_its_own_is_killed_too() -> None:
    sleeps = marker()
    script = f"import os; os.setsid(); os.execlp('sleep', 'sleep', '{sleeps}')"
    with pytest.raises(CommandFailed, match=r"within its timeout_s of 1$"):
        # `timeout` kills its own process group, and this one is not in it.
        run_on_host((*PYTHON, script), 1.0)
    assert [] == alive(sleeps)


@root
def test_what_it_leaves_behind_ends_with_it() -> None:
    sleeps = marker()
    assert "done\n" == fact(f"(setsid sleep {sleeps} &) ; echo done")
    assert [] == alive(sleeps)


@root
def test_its_time_ends_it_although_the_agent_has_died() -> None:
    sleeps = marker()
    program = (
        "from ec2_agent.facts.host_command import run_on_host\n"
        f"run_on_host(('/bin/sh', '-c', 'exec sleep {sleeps}'), 2.0)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as agent:
        while not alive(sleeps):
            assert agent.poll() is None
            time.sleep(0.01)
        agent.send_signal(signal.SIGKILL)
    while alive(sleeps):  # pytest's time limit ends this
        time.sleep(0.05)


@root
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "exit code 3"),
        ("echo first >&2; echo 'no such table' >&2; exit 1", "exit code 1: first\nno such table"),
        ("yes", "it printed more than 4096 bytes"),
    ],
)
def test_one_that_fails_gives_no_fact_and_says_why(script: str, why: str) -> None:
    assert why == failure(script)


@root
def test_its_memory_and_processes_are_limited() -> None:
    with pytest.raises(CommandFailed, match="MemoryError"):
        run_on_host((*PYTHON, "bytearray(100 << 20)"), 30.0)
    script = f"for n in $(seq {2 * PIDS}); do sleep 60 & done; wait"
    assert "fork" in failure(script).lower()


@root
def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match=r"exit code 127: setpriv: .*No such file"):
        run_on_host(("/no/such/program",), 30.0)


def test_an_agent_without_root_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "not started: host = true needs an agent that runs as root" == failure("true")


@root
def test_a_host_without_descriptors_or_programs_gives_no_fact(monkeypatch: pytest.MonkeyPatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        assert failure("true").startswith("not started: [Errno 24]")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    monkeypatch.setitem(ENVIRONMENT, "PATH", "/no/such/folder")
    assert "not started: [Errno 2] No such file or directory: 'timeout'" == failure("true")


@root
def test_the_kernel_kills_it_before_the_agent():
    """The agent's unit is protected (OOMScoreAdjust=-1000), and what it starts would be as well."""
    assert f"{kernel.OOM_SCORE}\n" == fact("cat /proc/self/oom_score_adj")
