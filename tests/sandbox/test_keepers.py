"""What is left of jobs when the launcher process, or whoever holds them, has ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import LauncherGone, SandboxRefused
from tests.sandbox.running import (
    REPOSITORY,
    TidyLauncher,
    alive,
    marker,
    started,
    strongest,
)


def test_a_dead_launcher_process_costs_no_running_job() -> None:
    with TidyLauncher(isolation=strongest(), slots=0) as launcher:
        ours, theirs = socket.socketpair()
        with ours, started(launcher, "sh", "-c", "read word <&3; exit 7", line=theirs) as sandbox:
            os.kill(launcher.pid, signal.SIGKILL)
            ours.sendall(b"end\n")
            assert sandbox.wait().exit_code == 7
        with pytest.raises(SandboxRefused, match="gone"), started(launcher, "true"):
            pass


@contextlib.contextmanager
def _agent(script: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that plays the agent."""
    prelude = (
        "import os, signal, socket, sys, time\n"
        "from tests.sandbox.running import strongest\n"
        "from ec2_agent.sandbox.launcher import Launcher\n"
        "from ec2_agent.sandbox.model import SandboxLimits, Spec\n"
        "null = os.open(os.devnull, os.O_RDWR)\n"
        "launcher = Launcher(isolation=strongest(), slots=2)\n"
        "ours, theirs = socket.socketpair()\n"
        "def start(*argv):\n"
        "    spec, line = Spec(argv, {}, SandboxLimits()), theirs.fileno()\n"
        "    return launcher.start(spec, stdout=null, stderr=null, line=line)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", prelude + script],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        try:
            yield agent
        finally:
            agent.kill()


def test_jobs_that_nobody_holds_end_with_the_agent() -> None:
    mark = marker()
    with _agent(f"s = start('sleep', '{mark}')\nos.kill(os.getpid(), signal.SIGKILL)") as agent:
        agent.wait()
    while alive(mark):  # pytest's time limit ends what never comes
        time.sleep(0.02)


def test_a_job_outlives_the_agent_while_another_process_holds_it() -> None:
    """What a shim per job will do: only the socket ties a job to a holder."""
    script = (
        "s = start('sh', '-c', 'read word <&3; exit 8')\n"
        "agent = os.getpid()\n"
        "if os.fork(): os.kill(agent, signal.SIGKILL)\n"
        "while os.getppid() == agent: time.sleep(0.01)\n"
        "ours.sendall(b'end\\n')\n"
        "print(s.wait().exit_code, flush=True)\n"
        "os._exit(0)\n"
    )
    with _agent(script) as agent:
        out, _ = agent.communicate()
    assert out == "8\n"


def use_up(launcher: Launcher) -> None:
    """Run one job more than can be ready."""
    for _ in range(3):
        with started(launcher, "/bin/true") as ready:
            assert 0 == ready.wait().exit_code


def test_a_launcher_that_died_says_so_and_what_it_started_goes_on() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        TidyLauncher(isolation=strongest(), slots=1) as launcher,
        started(launcher, "/bin/sh", "-c", "read word <&3", line=theirs) as sandbox,
    ):
        os.kill(launcher.pid, signal.SIGKILL)
        with pytest.raises(LauncherGone):
            use_up(launcher)
        ours.sendall(b"end\n")
        assert 0 == sandbox.wait().exit_code
