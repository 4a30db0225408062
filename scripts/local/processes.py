"""Starts and ends the processes of the local cloud.

Each process leads a session of its own, so Ctrl-C at the terminal reaches only us and we end the
rest in order. All carry the run's folder in their environment: whatever they started themselves
and lost is found by that mark.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from ec2_agent.processes import kill_process, start_ticks
from scripts.local.errors import LocalError

RUN_MARK = "JOBLANE_RUN_DIR"
"""Environment variable that every process of a run carries."""

STATE = "state"
"""Where a run's agents keep their files, in the run's folder."""

KILL_TIMEOUT_S = 5.0


def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.02) -> bool:
    """Wait for a condition; False when it was not met in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(poll_s)
    return True


class Child(Protocol):
    """The part of `subprocess.Popen` that is used of a process that this program started."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def wait(self, timeout: float) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""


class Spawn(Protocol):
    """Starts a program with exactly `env` in a session of its own. Raises OSError."""

    def __call__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, output: IO[bytes]
    ) -> Child:
        """Return the process, whose output and errors go to `output`."""


def spawn(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    output: IO[bytes],
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a program, which inherits the descriptors in `pass_fds`. Raises OSError."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
        pass_fds=pass_fds,
    )


@dataclass(frozen=True)
class Process:
    """A running process, known by its id and its start time, so a reused id is not taken for it."""

    what: str
    pid: int
    started: int
    log: str
    child: Child | None = field(default=None, repr=False, compare=False)
    """The handle of a process that this program started; None when it is known from a file."""
    not_before: float = field(default=0.0, repr=False, compare=False)
    """Unix seconds just before this program started it; 0 when it is known from a file."""
    log_from: int = field(default=0, repr=False, compare=False)
    """Length of the log when it was started: earlier processes wrote what is before."""

    @classmethod
    def start(
        cls,
        what: str,
        command: Sequence[str | Path],
        *,
        run_dir: Path,
        env: Mapping[str, str],
        spawn: Spawn = spawn,
    ) -> "Process":
        """Start `command` with exactly `env`; its output goes to `<what>.log` in the run's folder.

        Raises LocalError when the program is not there.
        """
        log = run_dir / f"{what}.log"
        not_before = time.time()
        with log.open("ab") as output:
            log_from = output.seek(0, os.SEEK_END)
            try:
                child = spawn(
                    [str(part) for part in command],
                    {**env, RUN_MARK: str(run_dir)},
                    run_dir,
                    output,
                )
            except OSError as error:
                raise LocalError(f"{command[0]}: cannot be started ({error.strerror})") from None
        started = start_ticks(child.pid) or -1
        return cls(what, child.pid, started, str(log), child, not_before, log_from)

    def is_alive(self) -> bool:
        """Whether it runs; collects the exit code of a child."""
        if self.child is not None:
            return self.child.poll() is None
        return start_ticks(self.pid) == self.started

    def wait(self, timeout_s: float) -> int:
        """Return the exit code of a process that this program started.

        Raises LocalError when it has not ended in time; it still runs then.
        """
        if self.child is None:
            raise ValueError(f"{self.what} was started by another program")
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise LocalError(
                f"{self.what} did not end within {timeout_s:.0f} s; see {self.log}"
            ) from None

    def stop(self, grace_s: float, asked: Callable[[], None] | None = None) -> None:
        """End it and its process group: SIGTERM, then SIGKILL after `grace_s` (0: at once).

        `asked` is called after SIGTERM.
        """
        with contextlib.suppress(ProcessLookupError):
            if grace_s > 0 and self.is_alive():
                # SIGTERM to the leader alone, which ends its children.
                os.kill(self.pid, signal.SIGTERM)
                if asked is not None:
                    asked()
                wait_until(lambda: not self.is_alive(), grace_s)
            if self.is_alive():
                os.killpg(self.pid, signal.SIGKILL)
                wait_until(lambda: not self.is_alive(), KILL_TIMEOUT_S)

    def last_words(self) -> str:
        """Return the end of its log in one line, for an error message."""
        try:
            written = Path(self.log).read_bytes()[self.log_from :]
        except OSError:
            return "it left no log"
        text = written.decode(errors="replace")
        said = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(said[-3:]) or "it said nothing"


def end_shims(run_dir: Path, agent: str = "*") -> None:
    """Kill the shims of an agent that has ended, and so their jobs.

    They carry no mark, because they are to outlive their agent; their files tell who they are.
    """
    for file in run_dir.glob(f"{STATE}/*/{agent}/jobs/*/shim"):
        with contextlib.suppress(
            OSError, ValueError
        ):  # it is ending, and its directory is being removed
            kill_process(json.loads(file.read_text(encoding="utf-8")))


def end_leftovers(run_dir: Path) -> None:
    """Kill every process with the mark of this run that outlived its parent."""
    end_shims(run_dir)

    def none_is_left() -> bool:
        left = list(_find_marked(run_dir))
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not left

    wait_until(none_is_left, KILL_TIMEOUT_S)


def save(processes: Sequence[Process], path: Path) -> None:
    """Store the running processes, for `scripts/down`."""
    known = [
        {"what": each.what, "pid": each.pid, "started": each.started, "log": each.log}
        for each in processes
    ]
    path.write_text(json.dumps(known), encoding="utf-8")


def load(path: Path) -> list[Process]:
    """Read the file of `save`; empty when there is none."""
    if not path.exists():
        return []
    return [Process(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]


def _find_marked(run_dir: Path) -> Iterator[int]:
    mark = f"{RUN_MARK}={run_dir}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
