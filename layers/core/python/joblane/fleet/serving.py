"""What agents can give to jobs, and a summary of it that every submission can be held against.

The function requeue reads all agents every minute and writes the summary when it has changed. A
submission compares what it asks for with it, and reads agents only to be sure before it warns.
Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from joblane.job.spec import JobFields
from joblane.queue.maxima import read_wanted
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

    @classmethod
    def of(cls, row: Heartbeat) -> Self:
        """What an agent said with its last heartbeat."""
        return cls(frozenset(row.lacks), row.memory_mb, row.cores)

    def encode(self) -> str:
        """Encode as one compact string."""
        row = [sorted(self.lacks), self.memory_mb, self.cores]
        return json.dumps(row, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`."""
        lacks, memory_mb, cores = json.loads(text)
        return cls(frozenset(lacks), memory_mb, cores)

    def missing(self, spec: JobFields) -> tuple[str, ...]:
        """Return what a job asks for and does not get, in words; empty if it gets all.

        Limits are named as in `resources`, and `egress`.
        """
        found = sorted(spec.needs & self.lacks)
        memory_mb, cores = spec.resources.memory, read_wanted(spec.resources, "cores")
        if self.memory_mb is not None and memory_mb > self.memory_mb and "memory_mb" not in found:
            found.append(f"{memory_mb} MB of memory")
        if self.cores is not None and cores is not None and cores > self.cores:
            found.append(f"core {cores - 1:g}")
        return tuple(found)

    def joined(self, other: Self) -> Self:
        """The better of both in each respect; they lack the same."""
        return type(self)(
            self.lacks, _larger(self.memory_mb, other.memory_mb), _larger(self.cores, other.cores)
        )


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

    def missing(self, queue: str, spec: JobFields) -> tuple[str, ...] | None:
        """Return what no agent of a queue gives: what the best of them lacks; empty if one can.

        None if no agent serves the queue.
        """
        agents = self.queues.get(queue)
        if agents is None:
            return None
        return min((able.missing(spec) for able in agents), key=lambda few: (len(few), few))

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
