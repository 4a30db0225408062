"""What running jobs use, for the heartbeat: from their cgroups, or from /proc without one."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ec2_agent.sandbox.cgroup import cpu_seconds, memory_bytes
from joblane.job.disk import to_mib
from joblane.state.stats import JobStats

MOST_PROCESSES = 200
"""Processes of a job without a cgroup that are looked at: three files each."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class RunningProcesses(NamedTuple):
    """The processes of a running job."""

    job_id: str
    epoch: int
    leaf: Path | None
    """The job's cgroup; None: it has none, or another process of the agent made it."""
    init: Callable[[], int | None]
    """Looks up the pid of its first process; None if it has ended."""


class Used(NamedTuple):
    """What a job has used up to a moment."""

    cpu_s: float
    memory_bytes: int


@dataclass
class UsageReader:
    """Compares what jobs have used with what they had used at the heartbeat before."""

    monotonic: Callable[[], float]
    proc: Path = _PROC
    _before: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict, init=False)
    """CPU seconds of each job, and when."""

    def read(self, jobs: Iterable[RunningProcesses]) -> dict[str, JobStats]:
        """Read what each job uses, by its id; none at its first heartbeat, and none that has ended.

        Only one thread may call it at once.
        """
        found, now = {}, {}
        for job in jobs:
            used = self._used(job)
            if used is None:
                continue
            at, key = self.monotonic(), (job.job_id, job.epoch)
            now[key] = used.cpu_s, at
            if before := self._before.get(key):
                cpus = max(0.0, used.cpu_s - before[0]) / max(at - before[1], 0.001)
                found[job.job_id] = JobStats(round(cpus, 2), to_mib(used.memory_bytes))
        self._before = now
        return found

    def _used(self, job: RunningProcesses) -> Used | None:
        if job.leaf is not None:
            cpu_s, memory = cpu_seconds(job.leaf), memory_bytes(job.leaf)
            return None if cpu_s is None or memory is None else Used(cpu_s, memory)
        init = job.init()
        return None if init is None else used_below(init, self.proc)


def used_below(init: int, proc: Path = _PROC) -> Used | None:
    """Sum what a process and all below it have used; None if it has ended.

    The CPU time of a process that has ended is its parent's once that has waited for it. Memory is
    the resident set: pages that processes share count for each.
    """
    cpu_s, memory, left, seen = 0.0, 0, [init], 0
    while left and seen < MOST_PROCESSES:
        folder, seen = proc / str(left.pop()), seen + 1
        try:
            fields = (folder / "stat").read_bytes().rpartition(b") ")[2].split()
            resident = int((folder / "statm").read_bytes().split()[1])
            below = [(task / "children").read_bytes() for task in (folder / "task").iterdir()]
        except OSError:
            if seen == 1:
                return None
            continue  # it has ended meanwhile
        cpu_s += sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime
        memory += resident * _PAGE
        left += [int(pid) for pids in below for pid in pids.split()]
    return Used(cpu_s, memory)
