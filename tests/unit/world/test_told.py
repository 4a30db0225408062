"""Agents and functions in a world with faults: each step of a job's timeline is one event.

A write that makes two steps at once is one record of the stream, and has to be known
(`joblane.notify.event_names.PASSED`).
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from joblane.aws.job.items import HEAD, TELLS
from joblane.aws.notify.stream import read_changes
from joblane.job.head import Head
from joblane.notify.event_names import name_event
from joblane.state.lifecycle import State
from joblane.testing.memory.evaluation import Item
from tests.support.aws import DESCRIPTOR
from tests.support.depth import budget
from tests.support.dynamodb import Tables
from tests.support.life import live

SEEDS = range(50, 50 + budget(1, 12))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """No logs: a world writes thousands of lines."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Recorded(Tables):
    """Tables that keep what happens to jobs, as if their tenant had a feed."""

    def __init__(self) -> None:
        super().__init__()
        self.told: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def listener(self) -> Any:
        """What is told of each change."""
        return self._both

    @listener.setter
    def listener(self, listener: Any) -> None:
        self._other = listener

    def _both(self, table: str, old: Item | None, new: Item | None) -> None:
        if self._other is not None:
            self._other(table, old, new)
        if table != DESCRIPTOR.jobs_table or new is None or new["sk"]["S"] != HEAD:
            return
        stream: dict[str, Any] = {"Keys": {"sk": new["sk"]}, "SequenceNumber": "1"}
        stream["NewImage"] = {**new, TELLS: {"S": "jobs"}}
        if old is not None:
            stream["OldImage"] = old
        changes = read_changes({"dynamodb": stream})
        self.told[new["job_id"]["S"]] += [change.event for change in changes]


def by_timeline(head: Head) -> list[str] | None:
    """The events of a job's timeline; None if it is folded, so that some have no line."""
    if any(step.times > 1 for step in head.timeline):
        return None
    first = name_event(None, head.timeline[0].state, claimed=False)
    found = [
        # A step with the same state is a claim, or an edit.
        name_event(a.state, b.state, claimed=b.state is State.ACTIVE)
        for a, b in pairwise(head.timeline)
    ]
    return [name for name in (first, *found) if name is not None]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_step_of_a_job_is_told_once(seed: int):
    tables = Recorded()
    life = live(seed, tables=tables)
    looked: Counter[str] = Counter()
    for job_id, head in life.promises.heads().items():
        expected = by_timeline(head)
        if expected is not None:
            assert expected == tables.told[job_id], job_id
            looked.update(expected)
    print(dict(looked))
    assert {"submitted", "released", "started"} <= looked.keys()
