"""What running jobs use, as a heartbeat carries it: six bytes a job, in bytes that cost nothing."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

_ENTRY = Struct(">BHHB")  # number in the list of jobs, hundredths of a CPU, MiB: low and high bits

_LISTED = 256
"""Jobs at the beginning of a heartbeat's list that can have figures."""

_MOST_HUNDREDTHS = 0xFFFF
_MOST_MB = 0xFF_FFFF

NAME = "stats"
"""Name of the attribute."""


class JobStats(NamedTuple):
    """What a running job uses."""

    cpus: float
    """CPUs in use on average since the heartbeat before, in hundredths."""
    memory_mb: int
    """Memory in MiB, rounded up."""


def encode_stats(
    stats: Mapping[str, JobStats], jobs: Sequence[str], room: int, turn: int
) -> bytes | None:
    """Encode the figures of some jobs, with the name of the attribute in `room` bytes.

    If not all fit, a heartbeat has those of the jobs whose turn it is: with `turn` rising by 1 each
    job comes in some of them. None if there is none or no room.
    """
    having = [number for number, job in enumerate(jobs[:_LISTED]) if job in stats]
    fit = min(len(having), (room - len(NAME)) // _ENTRY.size)
    if fit <= 0:
        return None
    start = turn * fit % len(having)
    chosen = (having + having)[start : start + fit]
    return b"".join(_entry(number, stats[jobs[number]]) for number in sorted(chosen))


def _entry(number: int, said: JobStats) -> bytes:
    memory_mb = min(said.memory_mb, _MOST_MB)
    hundredths = min(round(said.cpus * 100), _MOST_HUNDREDTHS)
    return _ENTRY.pack(number, hundredths, memory_mb & 0xFFFF, memory_mb >> 16)


def decode_stats(encoded: bytes, jobs: Sequence[str]) -> dict[str, JobStats]:
    """Inverse of `encode_stats`, by job id."""
    return {
        jobs[number]: JobStats(hundredths / 100, low | high << 16)
        for number, hundredths, low, high in _ENTRY.iter_unpack(encoded)
    }
