"""Running one command in a sandbox and taking what came out, for tests.

Programs in the test machine of tests/kernel import this: nothing that takes long to load.
"""

import contextlib
import functools
import itertools
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, Isolation, SandboxLimits, Spec
from ec2_agent.sandbox.output_pipe import make_output_pipe
from ec2_agent.sandbox.probe import probe

REPOSITORY = Path(__file__).parent.parent.parent
NO_LIMITS = SandboxLimits()
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")


def is_emulated() -> bool:
    """Say whether this is the test machine of tests/kernel, which is tens of times slower."""
    return " joblane.run=" in Path("/proc/cmdline").read_text()


def room(launcher: Launcher) -> Path:
    """Give the cgroup in which the slots of a launcher with isolation full have theirs."""
    for entry in Path(f"/proc/{launcher.pid}/fd").iterdir():  # the launcher process holds it open
        with contextlib.suppress(FileNotFoundError):  # others it opens and closes all the time
            if (path := entry.readlink()).name.startswith("joblane-"):
                return path
    raise AssertionError("the launcher holds no cgroup open")


def inits(launcher: Launcher) -> list[int]:
    """Give the inits of its sandboxes, the oldest first."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


class TidyLauncher(Launcher):
    """A launcher that lets go of whatever a test has started, however the test ends.

    A socket that a failed test leaves open would fail the next test as well, and in the end
    pytest itself: warnings are errors.
    """

    def __init__(self, **settings: Any) -> None:
        self._started: list[Sandbox] = []
        super().__init__(**settings)

    def start(self, spec: Spec, **options: Any) -> Sandbox:
        """Start a job, as any launcher does."""
        sandbox = super().start(spec, **options)
        self._started.append(sandbox)
        return sandbox

    def end_jobs(self) -> None:
        """Kill the jobs that have not ended, and close what was opened for them."""
        while self._started:
            sandbox = self._started.pop()
            sandbox.kill()
            if sandbox.fileno() < 0:  # a shim has it, or it has ended
                sandbox.release(killed=False)
            else:
                sandbox.wait()

    def close(self) -> None:
        """Close, and then let go of the jobs that this has killed."""
        super().close()
        self.end_jobs()


def wait_until_ready(launcher: Launcher) -> None:
    """Wait until each slot of the pool waits for a job."""
    for slot in tuple(launcher._pool):  # what it tells is read by the next start
        poll = select.poll()
        poll.register(slot.sock, select.POLLIN)
        poll.poll()


_markers = itertools.count()


def marker() -> str:
    """Seconds for `sleep` that no other process of this host was given: see `alive`."""
    return f"4700.{os.getpid():08}{next(_markers):04}"


STOPS = "kill -STOP $$; "
"""A shell that runs this waits for `go_on`."""


def go_on(marker: str, first: int | None = None) -> None:
    """Wait until a shell with the marker in its command line has stopped, and let it go on.

    A signal that it is to handle `first` is waiting for it then.
    """
    while not (stopped := [pid for pid in alive(marker) if _is_stopped(pid)]):
        time.sleep(0.01)
    for pid in stopped:
        if first is not None:
            os.kill(pid, first)
        os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"T")
    return False


def alive(marker: str) -> list[int]:
    """Give the processes of the host whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def fork(run: Callable[[], object]) -> Iterator[tuple[int, BinaryIO]]:
    """Run a function in a fork of this process, which has its imports.

    Gives the process, which is killed at the end, and its standard output.
    """
    read, write = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.dup2(write, 1)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - a pipe, to the end
            run()
        except BaseException:  # noqa: BLE001 - nothing of pytest may run here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.close(write)
    try:
        with open(read, "rb") as output:
            yield process, output
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


class Ran(NamedTuple):
    """A job's ending and what it wrote."""

    ending: Ending
    out: bytes
    err: bytes


@functools.cache
def strongest() -> Isolation:
    """The best isolation this host gives."""
    isolation = probe().isolation
    assert isolation is not None, probe().as_json()
    return isolation


@contextlib.contextmanager
def started(
    launcher: Launcher, *argv: str, line: socket.socket | None = None, **changes: object
) -> Iterator[Sandbox]:
    """Start a job whose output nobody reads; it is given the line."""
    with contextlib.ExitStack() as ends:
        null = ends.enter_context(open(os.devnull, "wb"))
        fields = {"env": {}, "limits": NO_LIMITS, **changes}
        spec = Spec(argv, **fields)  # type: ignore[arg-type]
        given = None if line is None else ends.enter_context(line).fileno()
        yield launcher.start(spec, stdout=null.fileno(), stderr=null.fileno(), line=given)


def run(launcher: Launcher, spec: Spec) -> Ran:
    """Run a job to its end, with a line that nobody listens to."""
    read_out, write_out = make_output_pipe()
    read_err, write_err = make_output_pipe()
    ours, line = socket.socketpair()
    with ours, open(read_out, "rb") as out, open(read_err, "rb") as err:
        try:
            sandbox = launcher.start(spec, stdout=write_out, stderr=write_err, line=line.fileno())
        finally:
            line.close()
            os.close(write_out)
            os.close(write_err)
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(err.read()))
        reader.start()
        output = out.read()
        reader.join()
        sandbox.say_drained()
        return Ran(sandbox.wait(), output, errors[0])


def shell(launcher: Launcher, script: str, **changes: object) -> Ran:
    """Run a shell script; `changes` are fields of Spec."""
    fields = {"env": {}, "limits": NO_LIMITS, "timeout_s": 30.0, **changes}
    return run(launcher, Spec(("/bin/sh", "-c", script), **fields))  # type: ignore[arg-type]


def python(launcher: Launcher, script: str, **changes: object) -> Ran:
    """Run a Python program; `changes` are fields of Spec."""
    fields = {"env": {}, "limits": NO_LIMITS, "timeout_s": 30.0, **changes}
    return run(launcher, Spec((*PYTHON, script), **fields))  # type: ignore[arg-type]
