"""Processes that are known by pid, start time and boot."""

import subprocess
import sys
from typing import Any

import pytest

from ec2_agent import processes
from ec2_agent.processes import identity, is_running, kill_process


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])


def test_a_process_is_killed_and_its_end_waited_for():
    with sleeper() as process:
        who = identity(process.pid)
        kill_process(who)
        assert not is_running(who)


def test_a_process_that_ends_while_it_is_about_to_be_killed_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
):
    """As a shim may whose job has just ended."""
    with sleeper() as process:
        who = identity(process.pid)

        def ends_then(_: Any) -> bool:
            process.kill()
            process.wait()
            return True

        monkeypatch.setattr(processes, "is_running", ends_then)
        kill_process(who)


def test_another_process_of_the_same_pid_is_left_alone():
    with sleeper() as process:
        who = identity(process.pid)
        kill_process({**who, "started": who["started"] - 1})
        assert is_running(who)
        process.kill()
