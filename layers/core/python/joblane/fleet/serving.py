"""What the agents of each queue can give: a summary that every submission can be held against.

The function requeue reads all agents every minute and writes the summary when it has changed. A
submission compares what it asks for with it, and reads agents only to be sure before it warns.
Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from joblane.state.lease import Heartbeat

Lacks = frozenset[str]
"""What an agent cannot give any job (`Heartbeat.lacks`)."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The agents that take jobs, by queue: the distinct sets of what they lack."""

    queues: Mapping[str, frozenset[Lacks]] = field(default_factory=dict)
    """Without queues that no live agent serves."""

    @classmethod
    def of(cls, agents: Iterable[Heartbeat], now_ms: int) -> Self:
        """Summarize agents. Those that are cordoned or drain do not count."""
        found: dict[str, set[Lacks]] = {}
        for row in agents:
            if row.mode is None and row.alive(now_ms):
                for queue in row.queues:
                    found.setdefault(queue, set()).add(frozenset(row.lacks))
        return cls({queue: frozenset(lacks) for queue, lacks in found.items()})

    def missing(self, queue: str, needs: Lacks) -> Lacks | None:
        """Return what no agent of a queue can give: what the best of them lacks; empty if one can.

        None if no agent serves the queue.
        """
        agents = self.queues.get(queue)
        if agents is None:
            return None
        return min((needs & lacks for lacks in agents), key=lambda few: (len(few), sorted(few)))

    def lacked(self, queue: str) -> tuple[str, ...]:
        """What every agent of a queue lacks, in order; empty if none serves it."""
        agents = self.queues.get(queue)
        return tuple(sorted(frozenset.intersection(*agents))) if agents else ()


def describe_missing(queue: str, missing: Lacks | None, *, fleets: bool) -> str | None:
    """Write the warning of a submission; None if an agent can run the job.

    `fleets` says whether the queue has any, which start agents by themselves.
    """
    if missing is None:
        then = "its fleet starts one" if fleets else "somebody starts one"
        return f"no agent that serves queue {queue} takes jobs now; the job waits until {then}"
    if not missing:
        return None
    return (
        f"no live agent of queue {queue} can give it {' and '.join(sorted(missing))}; the job "
        "waits for an agent whose host can"
    )
