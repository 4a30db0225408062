"""Runs a fact command in a sandbox, and returns what it printed (`host_command` runs one without).

Unlike a job it has no shim and no directory, and ends with the agent.
"""

import os
import select
import time
from contextlib import ExitStack

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, Isolation, SandboxLimits, SandboxRefused, Spec
from ec2_agent.sandbox.output_pipe import make_output_pipe

MAX_OUTPUT = 4096
"""Bytes of standard output: the members of a JSON object may have blanks around them."""

MAX_ERROR = 200
"""Bytes of standard error that the log shows: the last ones."""

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL after the time limit."""

LATE_S = 15.0
"""The sandbox is killed this long after its time limit if its init has not ended it."""

MEMORY_MB, PIDS, TMP_MB = 64, 64, 16
"""Limits of one. They differ from those of a job without limits, so that a fact command never takes
a sandbox that is ready for a job, and they are small: the agent plans no memory for them."""

_CHUNK = 4096


class CommandFailed(Exception):
    """A fact command gave no output; the text says why."""


def sandbox_of(argv: tuple[str, ...], timeout_s: float, isolation: Isolation) -> Spec:
    """What the sandbox of a fact command is to run: no network, and none of the agent's variables.

    Only isolation `full` can limit memory.
    """
    memory_mb = MEMORY_MB if isolation == "full" else None
    return Spec(
        argv=argv,
        env={},
        limits=SandboxLimits(memory_mb=memory_mb, pids=PIDS, tmp_mb=TMP_MB),
        network="none",
        timeout_s=timeout_s,
        grace_s=GRACE_S,
    )


def run(launcher: Launcher, spec: Spec) -> bytes:
    """Run a command to its end, and return its standard output. Blocking. Raises CommandFailed."""
    until = time.monotonic() + (spec.timeout_s or 0.0) + spec.grace_s + LATE_S
    with ExitStack() as readers:
        try:
            with ExitStack() as writers:
                out, stdout = open_pipe(readers, writers)
                err, stderr = open_pipe(readers, writers)
                sandbox = launcher.start(spec, stdout=stdout, stderr=stderr)
        except SandboxRefused as refused:
            raise CommandFailed(f"not started: {refused.reason}") from None
        except OSError as failed:
            raise CommandFailed(f"not started: {failed}") from None
        output, error = read_both(out, err, until)
        sandbox.say_drained()
        if len(output) > MAX_OUTPUT:
            sandbox.kill()
        ending = _end(sandbox, until)
    if len(output) > MAX_OUTPUT:
        raise CommandFailed(f"it printed more than {MAX_OUTPUT} bytes")
    if (why := _failure(ending, spec)) is not None:
        said = error[-MAX_ERROR:].decode("utf-8", "replace").strip()
        raise CommandFailed(f"{why}: {said}" if said else why)
    return output


def open_pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """Make a pipe for output: its end to read, and its end to write, closed with their stacks."""
    reader, writer = make_output_pipe()
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def read_both(out: int, err: int, until: float) -> tuple[bytes, bytes]:
    """Read both pipes to their ends, up to a monotonic time, or until the output is too long."""
    found = {out: b"", err: b""}
    poll = select.poll()
    for fd in found:
        poll.register(fd, select.POLLIN)
    unfinished = set(found)
    while unfinished and len(found[out]) <= MAX_OUTPUT:
        ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        if not ready:
            break
        for fd, _ in ready:
            chunk = os.read(fd, _CHUNK)
            found[fd] += chunk
            if not chunk:
                poll.unregister(fd)
                unfinished.discard(fd)
        found[err] = found[err][-MAX_ERROR:]
    return found[out], found[err]


def _end(sandbox: Sandbox, until: float) -> Ending:
    """Wait for the end; the sandbox is killed if it comes too late."""
    try:
        return sandbox.wait(max(0.0, until - time.monotonic()))
    except TimeoutError:
        sandbox.kill()
        return sandbox.wait()


def _failure(ending: Ending, spec: Spec) -> str | None:
    """Why a command that has ended gives no facts; None if it does."""
    if ending.oom_killed:  # its init is killed with it
        return f"it needed more than {MEMORY_MB} MB of memory"
    if ending.timed_out or ending.killed:
        return f"it did not end within its timeout_s of {spec.timeout_s:g}"
    if ending.error is not None:
        return f"it could not be run: {ending.error}"
    if ending.signal is not None:
        return f"signal {ending.signal} killed it"
    return None if ending.exit_code == 0 else f"exit code {ending.exit_code}"
