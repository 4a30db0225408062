"""Which agents a target selects now, and why it selects none. Pure.

Reasons say nothing of agents that do not serve the job's queue: they may be another tenant's.
"""

from collections.abc import Iterable
from typing import NamedTuple

from joblane.formats.times import rfc3339
from joblane.state.lease import Heartbeat
from joblane.target.match import FORMS, Target


class TargetChoice(NamedTuple):
    """The agents that a target selects."""

    agents: tuple[str, ...]
    """Their names, in order."""
    reason: str
    """Why there is none: a sentence; empty if there are some."""


def choose(agents: Iterable[Heartbeat], target: Target, queue: str, now_ms: int) -> TargetChoice:
    """Choose the agents of a broadcast among all that there are."""
    serving = [row for row in agents if queue in row.queues and row.alive(now_ms)]
    matching = [row for row in serving if target.matches(row.name, row.labels)]
    chosen = sorted({row.name for row in matching if row.takes(queue, now_ms)})
    if chosen:
        return TargetChoice(tuple(chosen), "")
    return TargetChoice(
        (), f"no agent matches {target}: {_nobody(serving, matching, target, queue)}"
    )


def find_host(agents: Iterable[Heartbeat], name: str, queue: str) -> Target:
    """The target that a name alone means: the agent of this name.

    Raises ValueError if none that serves the queue has it, alive or not, or if it may as well mean
    a label: that of another agent has it as its key or as a segment of its value.
    """
    serving = [row for row in agents if queue in row.queues]
    labels = sorted(
        {
            f"{key}:{value}"
            for row in serving
            if row.name != name
            for key, value in row.labels.items()
            if name in (key, *value.split("."))
        }
    )
    if not any(row.name == name for row in serving):
        also = f"; did you mean {labels[0]}?" if labels else f"; it must be {FORMS}"
        raise ValueError(f"names no agent that serves queue {queue}{also}")
    if labels:
        raise ValueError(f"may mean host:{name} or the label {labels[0]}; write the one you mean")
    return Target(host=name)


def why_not(agent: Heartbeat | None, name: str, queue: str, now_ms: int) -> str | None:
    """Why the agent of this name gets no jobs of a queue; None if it takes them."""
    if agent is None or queue not in agent.queues:
        return f"no agent {name} serves queue {queue}"
    if not agent.beat_ms:
        return f"agent {name} is gone: its instance has ended"
    if not agent.alive(now_ms):
        last = rfc3339(agent.beat_ms)
        return f"agent {name} is gone: its lease is over, its last heartbeat was at {last}"
    return None if agent.takes(queue, now_ms) else f"agent {name} is {agent.mode}"


def _nobody(serving: list[Heartbeat], matching: list[Heartbeat], target: Target, queue: str) -> str:
    if not serving:
        return f"no agent serves queue {queue}"
    if target.label is not None and not matching:
        key, value = target.label
        has = "the one agent" if len(serving) == 1 else f"none of the {len(serving)} agents"
        lacks = "does not have" if len(serving) == 1 else "has"
        return f"{has} of queue {queue} {lacks} a label {key}={value} or {key}={value}.*"
    counts = {
        "cordoned": sum(row.mode == "cordoned" for row in matching),
        "draining": sum(row.mode == "draining" for row in matching),
    }
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"of the agents of queue {queue} that would, {found}"
