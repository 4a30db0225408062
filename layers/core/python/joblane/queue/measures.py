"""What changes of jobs are as metrics of their queues."""

from collections.abc import Iterable
from typing import NamedTuple

from joblane.deployment.metrics import FAILED_JOBS
from joblane.queue.activity import Change
from joblane.state.lifecycle import State


class Moment(NamedTuple):
    """A minute of a queue."""

    queue: str
    minute: int
    """Unix seconds over 60."""


def measures(changes: Iterable[Change]) -> dict[Moment, dict[str, float | list[float]]]:
    """Return the metrics of each queue and minute: counts, and every wait and run in seconds."""
    found: dict[Moment, dict[str, float | list[float]]] = {}
    for change in changes:
        of = found.setdefault(Moment(change.queue, change.minute), {})
        if change.kind is not None:
            dead = change.after is State.DEAD
            name = "Dead" if dead else change.kind.capitalize()
            _add(of, name, 1)
            if name in {"Dead", "Failed"}:
                _add(of, FAILED_JOBS, 1)
        if change.kind == "started":
            _append(of, "WaitSeconds", change.waited_ms / 1000)
        if change.ran_ms is not None:
            _append(of, "RunSeconds", change.ran_ms / 1000)
    return {moment: of for moment, of in found.items() if of}


def _add(of: dict[str, float | list[float]], name: str, number: float) -> None:
    before = of.get(name, 0)
    if isinstance(before, int | float):
        of[name] = before + number


def _append(of: dict[str, float | list[float]], name: str, number: float) -> None:
    values = of.setdefault(name, [])
    if isinstance(values, list):
        values.append(number)
