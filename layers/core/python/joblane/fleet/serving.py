"""What agents can give to jobs, and a summary of it that every submission can be held against.

The function requeue reads all agents every minute and writes the summary when it has changed. A
submission compares what it asks for with it, and reads agents only to be sure before it warns.
Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from joblane.job.disk import OUTPUT_MB
from joblane.job.spec import JobFields
from joblane.job.wanted import read_wanted
from joblane.state.lease import Heartbeat


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an agent can give to one job, or the best of several agents that lack the same."""

    lacks: frozenset[str] = frozenset()
    """What no job can have (`Heartbeat.lacks`)."""
    memory_mb: int | None = None
    """The most memory that one job may have, in MiB; None: any."""
    cores: int | None = None
    """Cores that jobs may name: those below it; None: it is not known."""
    disk_mb: int | None = None
    """The most that one job may put on the disk, in MiB; None: it is not known."""
    work_disk_mb: int | None = None
    """The most of it that its work directory may have, if that is on a disk of its own."""

    @classmethod
    def of(cls, row: Heartbeat) -> Self:
        """What an agent said with its last heartbeat."""
        disk, work = (None if has is None else has.most_mb for has in (row.disk, row.work_disk))
        return cls(frozenset(row.lacks), row.memory_mb, row.cores, disk, work)

    def encode(self) -> str:
        """Encode as one compact string."""
        row = [sorted(self.lacks), self.memory_mb, self.cores, self.disk_mb, self.work_disk_mb]
        return json.dumps(row, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`."""
        lacks, *figures = json.loads(text)
        return cls(frozenset(lacks), *figures)

    def coarse(self) -> Self:
        """The same with less of each disk: as much of it stays the same from minute to minute."""
        own, work = (
            None if mb is None else _coarse(mb) for mb in (self.disk_mb, self.work_disk_mb)
        )
        return replace(self, disk_mb=own, work_disk_mb=work)

    def missing(self, spec: JobFields, own_mb: int = OUTPUT_MB) -> tuple[str, ...]:
        """Return what a job asks for and does not get, in words; empty if it gets all.

        Limits are named as in `resources`, and `egress`. `own_mb` is `Head.own_disk_mb`.
        """
        found = sorted(spec.needs & self.lacks)
        memory_mb, cores = spec.resources.memory, read_wanted(spec.resources, "cores")
        if self.memory_mb is not None and memory_mb > self.memory_mb and "memory_mb" not in found:
            found.append(f"{memory_mb} MB of memory")
        if self.cores is not None and cores is not None and cores > self.cores:
            found.append(f"core {cores - 1:g}")
        found += self._missing_disk(spec, own_mb)
        return tuple(found)

    def _missing_disk(self, spec: JobFields, own_mb: int) -> Iterator[str]:
        work_mb = spec.resources.disk_mb or 0
        if "disk_mb" in self.lacks:
            work_mb = 0
        if self.work_disk_mb is not None:
            if work_mb > self.work_disk_mb:
                yield f"{work_mb} MB of disk for work directories"
            work_mb = 0
        if self.disk_mb is not None and own_mb + work_mb > self.disk_mb:
            yield f"{own_mb + work_mb} MB of disk"

    def joined(self, other: Self) -> Self:
        """The better of both in each respect; they lack the same."""
        return type(self)(
            self.lacks,
            _larger(self.memory_mb, other.memory_mb),
            _larger(self.cores, other.cores),
            _larger(self.disk_mb, other.disk_mb),
            _larger(self.work_disk_mb, other.work_disk_mb),
        )


def _coarse(mb: int) -> int:
    """The number without all but its first four binary digits: 14,500 becomes 14,336."""
    step = 1 << max(0, mb.bit_length() - 4)
    return max(0, mb // step * step)


def _larger(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


@dataclass(frozen=True, slots=True)
class Serving:
    """The agents that take jobs, by queue: the best of those that lack the same."""

    queues: Mapping[str, frozenset[Capabilities]] = field(default_factory=dict)
    """Without queues that no live agent serves."""

    @classmethod
    def of(cls, agents: Iterable[Heartbeat], now_ms: int) -> Self:
        """Summarize agents. Those that are cordoned or drain do not count."""
        found: dict[str, dict[frozenset[str], Capabilities]] = {}
        for row in agents:
            if row.mode is None and row.alive(now_ms):
                able = Capabilities.of(row)
                for queue in row.queues:
                    best = found.setdefault(queue, {})
                    best[able.lacks] = able.joined(best.get(able.lacks, able))
        return cls({queue: frozenset(best.values()) for queue, best in found.items()})

    def coarse(self) -> Self:
        """The same as it is written down, where it is compared with what was there."""
        return type(self)(
            {
                queue: frozenset(able.coarse() for able in best)
                for queue, best in self.queues.items()
            }
        )

    def missing(
        self, queue: str, spec: JobFields, own_mb: int = OUTPUT_MB
    ) -> tuple[str, ...] | None:
        """Return what no agent of a queue gives: what the best of them lacks; empty if one can.

        None if no agent serves the queue. `own_mb` is `Head.own_disk_mb`.
        """
        agents = self.queues.get(queue)
        if agents is None:
            return None
        found = (able.missing(spec, own_mb) for able in agents)
        return min(found, key=lambda few: (len(few), few))

    def lacked(self, queue: str) -> tuple[str, ...]:
        """What every agent of a queue lacks, in order; empty if none serves it."""
        agents = self.queues.get(queue)
        if not agents:
            return ()
        return tuple(sorted(frozenset.intersection(*(able.lacks for able in agents))))


def describe_missing(queue: str, missing: tuple[str, ...] | None, *, fleets: bool) -> str | None:
    """Write the warning of a submission; None if an agent can run the job.

    `fleets` says whether the queue has any, which start agents by themselves.
    """
    if missing is None:
        then = "its fleet starts one" if fleets else "somebody starts one"
        return f"no agent that serves queue {queue} takes jobs now; the job waits until {then}"
    if not missing:
        return None
    return (
        f"no live agent of queue {queue} can give it {' and '.join(missing)}; the job waits for an "
        "agent whose host can"
    )
