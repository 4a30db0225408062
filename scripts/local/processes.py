"""Starts and ends the processes of the local cloud, so that nothing stays behind.

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

from ec2_agent.kept import end_process
from scripts.local.errors import LocalError

RUN_MARK = "JOBLANE_RUN_DIR"
"""Environment variable that every process of a run carries."""

STATE = "state"
"""Where a run's agents keep their files, in the run's folder."""

POLL_S = 0.02
KILL_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Process:
    """A running process, known by its id and its start time, so a reused id is not taken for it."""

    what: str
    pid: int
    started: int
    log: str
    child: "subprocess.Popen[bytes] | None" = field(default=None, repr=False, compare=False)
    """The handle of a process that this program started; None when it is known from a file."""

    @classmethod
    def start(
        cls, what: str, command: Sequence[str | Path], *, run_dir: Path, env: Mapping[str, str]
    ) -> "Process":
        """Start `command` with exactly `env`; its output goes to `<what>.log` in the run's folder.

        Raises LocalError when the program is not there.
        """
        log = run_dir / f"{what}.log"
        with log.open("ab") as output:
            try:
                child = subprocess.Popen(
                    [str(part) for part in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=run_dir,
                    env={**env, RUN_MARK: str(run_dir)},
                    start_new_session=True,
                )
            except OSError as error:
                raise LocalError(f"{command[0]}: cannot be started ({error.strerror})") from None
        started = _start_time(child.pid)
        return cls(what, child.pid, started if started is not None else -1, str(log), child)

    def is_alive(self) -> bool:
        """Whether it runs; a child of ours that ended is collected on the way."""
        if self.child is not None:
            return self.child.poll() is None
        return _start_time(self.pid) == self.started

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

    def stop(self, grace_s: float) -> None:
        """End it and its process group: ask and wait up to `grace_s`, then kill. 0 does not ask."""
        if grace_s > 0 and self.is_alive():
            # Politely to the leader alone, which ends what it started.
            self._send(os.kill, signal.SIGTERM, grace_s)
        if self.is_alive():
            self._send(os.killpg, signal.SIGKILL, KILL_TIMEOUT_S)

    def _send(self, how: Callable[[int, int], None], number: int, patience_s: float) -> None:
        """Send a signal and return when it has ended, or patience has."""
        with contextlib.suppress(ProcessLookupError):
            how(self.pid, number)
        end = time.monotonic() + patience_s
        while time.monotonic() < end and self.is_alive():
            time.sleep(POLL_S)

    def last_words(self, lines: int = 3) -> str:
        """Return the end of its log in one line, for an error message."""
        try:
            text = Path(self.log).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "it left no log"
        said = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(said[-lines:]) or "it said nothing"


def end_shims(run_dir: Path, agent: str = "*") -> None:
    """Kill the shims of an agent that is gone, and their jobs with them.

    They carry no mark, because they are to outlive their agent; their files tell who they are.
    """
    for file in run_dir.glob(f"{STATE}/*/{agent}/jobs/*/shim"):
        with contextlib.suppress(OSError, ValueError):  # it ends just now, and its directory too
            end_process(json.loads(file.read_text(encoding="utf-8")))


def end_leftovers(run_dir: Path) -> None:
    """Kill every process that carries the mark of this run and outlived who started it."""
    end_shims(run_dir)
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        left = list(_marked(run_dir))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(POLL_S)


def save(processes: Sequence[Process], path: Path) -> None:
    """Write down what runs, for `scripts/down`."""
    known = [
        {"what": each.what, "pid": each.pid, "started": each.started, "log": each.log}
        for each in processes
    ]
    path.write_text(json.dumps(known), encoding="utf-8")


def load(path: Path) -> list[Process]:
    """Read what `save` wrote; nothing when there is no such file."""
    if not path.exists():
        return []
    return [Process(**fields) for fields in json.loads(path.read_text(encoding="utf-8"))]


def _marked(run_dir: Path) -> Iterator[int]:
    mark = f"{RUN_MARK}={run_dir}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _start_time(pid: int) -> int | None:
    """Return a process's start in clock ticks since boot; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything; the fields after it are numbers, the first a letter.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
