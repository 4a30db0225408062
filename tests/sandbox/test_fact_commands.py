"""Fact commands run as jobs do: without privileges, network, or anything of the agent's."""

import socket
import threading
import time
from pathlib import Path

import pytest

from ec2_agent.facts import command
from ec2_agent.facts.command import CommandFailed, sandbox_of
from ec2_agent.sandbox.launcher import ENVIRONMENT, Launcher
from ec2_agent.sandbox.machine import Machine
from ec2_agent.sandbox.model import SandboxLimits
from tests.sandbox.running import PYTHON, TidyLauncher, alive, marker, strongest, wait_until_ready


def fact(launcher: Launcher, script: str, timeout_s: float = 30.0) -> str:
    """Run a shell script as a fact command."""
    spec = sandbox_of(("/bin/sh", "-c", script), timeout_s, strongest())
    return command.run(launcher, spec).decode()


def failure(launcher: Launcher, script: str, timeout_s: float = 30.0) -> str:
    """Why a shell script as a fact command fails."""
    with pytest.raises(CommandFailed) as failed:
        fact(launcher, script, timeout_s)
    return str(failed.value)


def test_what_it_prints_is_read(launcher: Launcher) -> None:
    assert "6.1\n" == fact(launcher, "echo ignored >&2; echo 6.1")
    assert "" == fact(launcher, "true")


def test_it_has_no_privileges(launcher: Launcher) -> None:
    status = fact(
        launcher, "id -u; grep -E '^(Cap(Eff|Prm|Bnd)|NoNewPrivs|Seccomp):' /proc/self/status"
    )
    uid, *lines = status.splitlines()
    found = dict(line.split(":\t") for line in lines)
    assert "1000" == uid
    assert {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16} == {
        name: value for name, value in found.items() if name.startswith("Cap")
    }
    assert ("1", "2") == (found["NoNewPrivs"], found["Seccomp"])
    assert "read-only" in failure(launcher, "echo x >/usr/x").lower()


def test_it_sees_no_variable_of_the_agent(launcher: Launcher, monkeypatch: pytest.MonkeyPatch):
    # The shared launcher was started with AWS_SECRET_ACCESS_KEY.
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the agent's own")
    seen = dict(line.split("=", 1) for line in fact(launcher, "env -u _").splitlines())
    of_the_machine = Machine(64, 0.5, limits_cpus=True).variables().keys()
    assert ENVIRONMENT.keys() == seen.keys() - {"PWD", "SHLVL", "OLDPWD"} - of_the_machine
    environ = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true"
    assert "the agent's own" not in fact(launcher, environ)


def test_it_has_no_network(launcher: Launcher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"
        spec = sandbox_of((*PYTHON, script), 30.0, strongest())
        with pytest.raises(CommandFailed, match="Connection refused"):
            command.run(launcher, spec)
    spec = sandbox_of(
        (*PYTHON, "import socket\nprint(*(name for _, name in socket.if_nameindex()))"),
        30.0,
        strongest(),
    )
    assert b"lo\n" == command.run(launcher, spec)


def test_it_sees_no_file_of_the_agent(launcher: Launcher, tmp_path: Path) -> None:
    secret = tmp_path / "credentials"
    secret.write_text("the agent's own")
    tmp_path.chmod(0o755)
    secret.chmod(0o644)
    assert "No such file" in failure(launcher, f"cat {secret}")
    assert "job" == fact(launcher, "cat /etc/hostname").strip()


@pytest.mark.cgroup_v2
def test_its_limits_are_small(launcher: Launcher) -> None:
    filled = failure(launcher, f"head -c {command.TMP_MB + 1}M /dev/zero >/tmp/full")
    assert "No space left" in filled
    if strongest() == "full":
        large = failure(launcher, "dd if=/dev/zero of=/dev/null bs=100M count=1")
        assert large.startswith(f"it needed more than {command.MEMORY_MB} MB of memory")


def test_one_that_hangs_is_killed_with_all_that_it_started(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LATE_S", 600.0)  # its init ends it, or pytest this test
    sleeps = marker()
    script = f"trap '' TERM; (setsid sleep {sleeps} &) ; while :; do sleep {sleeps}; done"
    assert "it did not end within its timeout_s of 0.3" == failure(launcher, script, 0.3)
    assert [] == alive(sleeps)


def test_what_it_leaves_behind_does_not_hold_it_up(launcher: Launcher) -> None:
    sleeps = marker()
    assert "done\n" == fact(launcher, f"(setsid sleep {sleeps} &) ; echo done")
    assert [] == alive(sleeps)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "exit code 3"),
        ("echo first >&2; echo 'no such table' >&2; exit 1", "exit code 1: first\nno such table"),
        ("kill -9 $$", "signal 9 killed it"),
        ("yes", "it printed more than 4096 bytes"),
        ("head -c 4097 /dev/zero", "it printed more than 4096 bytes"),
        # It ends when tee has written to standard error, and then to the pipe.
        ("mkfifo p; yes | tee p >&2 & read y <p; exit 4", "exit code 4: "),
    ],
)
def test_one_that_fails_says_why(launcher: Launcher, script: str, why: str) -> None:
    assert failure(launcher, script).startswith(why)


def test_one_that_takes_too_long_says_so_although_it_has_closed_its_output(launcher: Launcher):
    why = failure(launcher, "exec >&- 2>&-; sleep 60", 1.0)
    assert "it did not end within its timeout_s of 1" == why


def test_a_program_that_is_not_there_is_named(launcher: Launcher) -> None:
    spec = sandbox_of(("/no/such/program",), 5.0, strongest())
    with pytest.raises(CommandFailed, match="could not be run: /no/such/program: No such file"):
        command.run(launcher, spec)


def test_it_leaves_the_sandboxes_that_are_ready_to_jobs() -> None:
    with TidyLauncher(
        isolation=strongest(), slots=2, defaults=SandboxLimits(tmp_mb=64)
    ) as launcher:
        wait_until_ready(launcher)
        ready = [slot.number for slot in launcher._pool]  # jobs take the oldest
        assert "x\n" == fact(launcher, "echo x")
        assert ready == [slot.number for slot in launcher._pool]


def test_one_that_is_running_ends_with_the_launcher() -> None:
    sleeps, ended = marker(), []

    def run() -> None:
        ended.append(failure(launcher, f"sleep {sleeps}", 60))

    with TidyLauncher(isolation=strongest(), slots=0) as launcher:
        running = threading.Thread(target=run)
        running.start()
        while not alive(sleeps):
            time.sleep(0.01)
    running.join()
    assert [] == alive(sleeps)
    assert 1 == len(ended)
