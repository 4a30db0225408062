"""The machine that a job has: its memory and its processors, as its programs find them.

Programs of many languages look for limits in different places: cgroup v2 (`/sys/fs/cgroup`, which a
slot mounts), files of /proc, and variables of the environment. What each of them finds is in
docs/reference/what-programs-see.md.
"""

import math
import os
from dataclasses import dataclass
from typing import Self

from ec2_agent.sandbox.limits import LauncherCgroup, parse_cores
from ec2_agent.sandbox.model import SandboxLimits

_COLLECT_AT = 0.9
"""Part of the memory at which Go collects garbage more often. The rest is for what it does not
count: files in memory, C libraries, other processes of the job."""


_NODE_MB = 512
"""Node takes half of the memory for its heap, but never less than this half."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a job may use of its host."""

    memory_mb: int | None
    """MiB; None: not limited."""
    cpus: float
    """CPU seconds a second: the limit, or all cores that it may run on."""
    limits_cpus: bool
    """Whether that is less than the cores, which no program sees in its scheduler's mask."""

    @classmethod
    def of(cls, settled: SandboxLimits, own: LauncherCgroup | None) -> Self:
        """Return the machine of a job with these (checked) limits.

        `own` is the launcher's cgroup, None with isolation `namespaces`.
        """
        online = own.cores if own else os.sched_getaffinity(0)
        cores = len(online if settled.cores is None else parse_cores(settled.cores))
        if settled.cpus is None or settled.cpus >= cores:
            return cls(settled.memory_mb, cores, limits_cpus=False)
        return cls(settled.memory_mb, settled.cpus, limits_cpus=True)

    @property
    def processors(self) -> int:
        """How many processors it seems to have: a part of one is one."""
        return math.ceil(self.cpus)

    def variables(self) -> dict[str, str]:
        """Return what programs are told in their environment.

        Go before 1.25 and Python's `os.process_cpu_count` count cores; no Go limits its heap; and
        Node's heap would be larger than a small job.
        """
        told = {"JOBLANE_CPUS": f"{self.cpus:g}"}
        if self.limits_cpus:
            told["GOMAXPROCS"] = told["PYTHON_CPU_COUNT"] = str(self.processors)
        if self.memory_mb is not None:
            told["JOBLANE_MEMORY_MB"] = str(self.memory_mb)
            told["GOMEMLIMIT"] = f"{int(self.memory_mb * _COLLECT_AT)}MiB"
            if self.memory_mb < _NODE_MB:
                told["NODE_OPTIONS"] = f"--max-old-space-size={self.memory_mb // 2}"
        return told
