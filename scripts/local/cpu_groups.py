"""CPU time of groups of processes, their ended descendants included, from cgroup v2.

/proc/PID/stat counts only children that their parent has waited for, and shims are reaped by the
kernel. A cgroup counts whatever has ever run in it, and `cpu.stat` is there on every host that
mounts cgroup v2, also where its controllers belong to cgroup v1.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.local.errors import LocalError

GONE_S = 5.0
"""How long ended processes may stay in their group."""


class CpuGroups:
    """A cgroup for each group of processes."""

    def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
        """Move processes, by the name of their group, to cgroups of their own.

        What they start from now on is counted with them. Raises LocalError without cgroup v2 or
        without root.
        """
        self._place = _mount() / f"joblane-bench-{os.getpid()}"
        self._names = tuple(groups)
        try:
            self._place.mkdir()
            for name, pids in groups.items():
                (self._place / name).mkdir()
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        (self._place / name / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise LocalError(f"CPU time cannot be measured: {error}") from None

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds of each group since it was made."""
        return {name: _usage_us(self._place / name) / 1e6 for name in self._names}

    def remove(self) -> None:
        """Move what is left to the root, and remove the cgroups."""
        for place in (*(self._place / name for name in self._names), self._place):
            ends = time.monotonic() + GONE_S
            while time.monotonic() < ends:
                for pid in (place / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):
                        (_mount() / "cgroup.procs").write_text(pid)
                with contextlib.suppress(OSError):
                    place.rmdir()
                    break


@contextlib.contextmanager
def cpu_groups(groups: Mapping[str, Iterable[int]]) -> Iterator[CpuGroups]:
    """Count CPU time for the length of a block: see `CpuGroups`."""
    made = CpuGroups(groups)
    try:
        yield made
    finally:
        made.remove()


def _usage_us(place: Path) -> int:
    lines = (place / "cpu.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("usage_usec "))


def _mount() -> Path:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            return Path(line.split()[4])
    raise LocalError("CPU time cannot be measured: this host mounts no cgroup v2")
