"""Jobs that report when they run to a witness on the host, bypassing Joblane, by their own clock.

A job opens one connection to the witness on this host (it needs network `host`) and writes a line
for each of its ticks, with the time by CLOCK_BOOTTIME, which all processes of a host share. What
arrived before a kill is in the kernel's hands, so the last line of a run is the last thing it did.
"""

import socketserver
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

PYTHON = "/usr/bin/python3"

END = "end"

ODD = 3
"""One line of a job's output in so many is not UTF-8."""

NOT_UTF8 = b"\xff\xc3(\x00"

_PROGRAM = f"""
import os, socket, sys, time
port, tick_s, *ticks = int(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:])
link = socket.create_connection(("127.0.0.1", port))
run = os.urandom(6).hex()
slot = os.environ.get("JOBLANE_SLOT", "")
link.sendall(f"{{os.environ['JOBLANE_JOB_ID']}} {{run}} {{slot}}\\n".encode())
def tell(what):
    link.sendall(f"{{time.clock_gettime(time.CLOCK_BOOTTIME):.6f}} {{what}}\\n".encode())
    odd = {NOT_UTF8!r} if what != "{END}" and what % {ODD} == 0 else b""
    os.write(1, f"{{run}} {{what}} ".encode() + odd + b"\\n")
for tick in range(ticks[min(int(os.environ["JOBLANE_ATTEMPT"]), len(ticks)) - 1]):
    tell(tick)
    time.sleep(tick_s)
tell("{END}")
"""


def format_line(token: str, what: str) -> bytes:
    """The line that a run writes to its standard output when it tells `what`."""
    odd = NOT_UTF8 if what != END and int(what) % ODD == 0 else b""
    return f"{token} {what} ".encode() + odd + b"\n"


@dataclass
class Run:
    """One process of a job, as it reported itself."""

    token: str
    at: list[float] = field(default_factory=list)
    """Seconds of CLOCK_BOOTTIME, one a line."""
    told: list[str] = field(default_factory=list)
    """Numbers of ticks from 0 on, then `END`."""
    slot: str = ""
    """Its JOBLANE_SLOT; empty for a job without a key."""

    @property
    def ended(self) -> bool:
        """Whether it got to its end."""
        return self.told[-1:] == [END]

    def __str__(self) -> str:
        """When it ran."""
        return f"{self.token} {self.at[0]:.3f}..{self.at[-1]:.3f} {len(self.at)} lines"


class Witness(socketserver.ThreadingTCPServer):
    """Receives every line of every job."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hearing)
        self._runs: dict[str, list[Run]] = defaultdict(list)
        self._lock = threading.Lock()

    def command(self, tick_s: float, *ticks: int) -> list[str]:
        """Return the command of a job that runs for a number of ticks.

        More than one number: in the first attempt, the second, and so on.
        """
        numbers = (self.server_address[1], tick_s, *ticks)
        return [PYTHON, "-I", "-S", "-c", _PROGRAM, *map(str, numbers)]

    def begin(self, job_id: str, token: str, slot: str = "") -> Run:
        """Record another run."""
        run = Run(token, slot=slot)
        with self._lock:
            self._runs[job_id].append(run)
        return run

    def runs(self, job_id: str) -> list[Run]:
        """Return the runs of a job that reported anything, by start time."""
        with self._lock:
            return sorted((run for run in self._runs[job_id] if run.at), key=lambda run: run.at[0])


def overlap(runs: list[Run]) -> bool:
    """Whether two runs of a job overlapped."""
    ends = accumulate((run.at[-1] for run in runs), max)
    return any(begin <= end for end, begin in zip(ends, (r.at[0] for r in runs[1:]), strict=False))


def quiet_s(runs: list[Run]) -> list[float]:
    """Seconds between one run and the next."""
    return [late.at[0] - early.at[-1] for early, late in pairwise(runs)]


@contextmanager
def witness() -> Iterator[Witness]:
    """Listen for the duration of a block."""
    with Witness() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Hearing(socketserver.StreamRequestHandler):
    """One connection: one run."""

    server: Witness

    def handle(self) -> None:
        """Record each complete line."""
        job_id, token, *slot = (*self.rfile.readline().decode().split(), "", "")[:3]
        if not token:
            return
        run = self.server.begin(job_id, token, *slot)
        try:
            for line in self.rfile:
                at, _, what = line.decode().strip().partition(" ")
                if line.endswith(b"\n"):
                    run.at.append(float(at))
                    run.told.append(what)
        except ConnectionError:
            return  # killed
