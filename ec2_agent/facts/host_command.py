"""Runs a fact command with the host's view: outside of a sandbox, as an unprivileged user.

It is a chain of programs of the host, each of which becomes or starts the next one:

    timeout     kills what follows after the time limit, also when the agent has died meanwhile
    unshare     makes the command the first of a namespace of processes, which all end with it
    sh          gives up the agent's protection from the kernel's OOM killer
    prlimit     limits memory and processes
    setpriv     takes all privileges, and has the command killed when unshare ends
"""

import contextlib
import os
import signal
import subprocess
import time
from contextlib import ExitStack

from ec2_agent.facts.command import (
    GRACE_S,
    LATE_S,
    MAX_ERROR,
    MAX_OUTPUT,
    MEMORY_MB,
    PIDS,
    CommandFailed,
    open_pipe,
    read_both,
)
from ec2_agent.sandbox import kernel, uids

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "LANG": "C.UTF-8",
}
"""All of its environment: none of the agent's."""


def run_on_host(argv: tuple[str, ...], timeout_s: float) -> bytes:
    """Run a command to its end, and return its standard output. Blocking. Raises CommandFailed."""
    if os.geteuid() != 0:  # the agent's own user may read its credentials
        raise CommandFailed("not started: host = true needs an agent that runs as root")
    began = time.monotonic()
    with ExitStack() as readers:
        try:
            with ExitStack() as writers:
                out, stdout = open_pipe(readers, writers)
                err, stderr = open_pipe(readers, writers)
                process = subprocess.Popen(
                    [*_wrapped(timeout_s), *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as failed:
            raise CommandFailed(f"not started: {failed}") from None
        try:
            until = began + timeout_s + GRACE_S + LATE_S
            output, error = read_both(out, err, until)
            if len(output) > MAX_OUTPUT:
                raise CommandFailed(f"it printed more than {MAX_OUTPUT} bytes")
            code = process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if (why := _failure(code, time.monotonic() - began >= timeout_s, timeout_s)) is not None:
        said = error[-MAX_ERROR:].decode("utf-8", "replace").strip()
        raise CommandFailed(f"{why}: {said}" if said else why)
    return output


def _wrapped(timeout_s: float) -> tuple[str, ...]:
    user = uids.FACTS
    return (
        *("timeout", "--signal=KILL", str(timeout_s)),
        *("unshare", "--pid", "--fork", "--kill-child=SIGKILL"),
        *("sh", "-c", f'echo {kernel.OOM_SCORE} > /proc/self/oom_score_adj && exec "$@"', "sh"),
        *("prlimit", f"--data={MEMORY_MB << 20}", f"--nproc={PIDS}", "--core=0"),
        *("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"),
        # After a change of the user, which clears what unshare has set.
        *("--bounding-set=-all", "--inh-caps=-all", "--pdeathsig=KILL", "--"),
    )


def _failure(code: int, late: bool, timeout_s: float) -> str | None:  # noqa: FBT001 - private
    """Why a command that has ended gives no facts; None if it does."""
    if code == 0:
        return None
    killed = code in {-signal.SIGKILL, 128 + signal.SIGKILL}  # what timeout says of itself
    if killed and late:
        return f"it did not end within its timeout_s of {timeout_s:g}"
    return "signal 9 killed it" if killed else f"exit code {code}"
