"""Memory, CPU time and descriptors of processes, from /proc."""

import os
from dataclasses import dataclass, fields
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Weight:
    """One process, or some together."""

    rss_mb: float = 0.0
    pss_mb: float = 0.0
    anonymous_mb: float = 0.0
    """What no file backs: its own, not its program's."""
    cpu_s: float = 0.0
    descriptors: int = 0
    threads: int = 0
    processes: int = 0

    def __add__(self, other: "Weight") -> "Weight":
        names = [field.name for field in fields(self)]
        return Weight(*(getattr(self, name) + getattr(other, name) for name in names))


def weigh(pid: int) -> Weight:
    """Measure a process; zero when it has ended."""
    place = PROC / str(pid)
    try:
        ticks = _stat(place)
        kib = memory_kib(pid)
        return Weight(
            kib["Rss"] / 1024,
            kib["Pss"] / 1024,
            kib["Anonymous"] / 1024,
            (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"),
            len(list((place / "fd").iterdir())),
            len(list((place / "task").iterdir())),
            1,
        )
    except OSError:
        return Weight()


def memory_kib(pid: int) -> dict[str, int]:
    """Return the memory of a process by kind, such as `Rss`. Raises OSError when it has ended."""
    lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    return {line.split()[0].removesuffix(":"): int(line.split()[1]) for line in lines}


def children() -> dict[int, list[int]]:
    """Return the processes of this host by their parents."""
    found: dict[int, list[int]] = {}
    for place in PROC.glob("[0-9]*"):
        try:
            parent = int(_stat(place)[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(place.name))
    return found


def below(pid: int) -> list[int]:
    """Return a process and its descendants."""
    of = children()
    found = [pid]
    for known in found:
        found += of.get(known, [])
    return found


def _stat(place: Path) -> list[str]:
    """The fields of /proc/PID/stat that follow the name, which may contain spaces."""
    return (place / "stat").read_text().rpartition(") ")[2].split()
