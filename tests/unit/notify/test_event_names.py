"""The table of events, and random walks of jobs: what is told of them, to whom, and how often."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.aws.job.items import encode_spec, to_item
from joblane.contract.job_events import JobEvent
from joblane.deployment.names import notify_name
from joblane.job.head import Head, make_head
from joblane.notify.event_names import (
    DEFAULT,
    ENDS,
    EVENT_NAMES,
    EVENTS,
    EventName,
    name_event,
)
from joblane.state.lifecycle import ENDED, TABLE, Event, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.depth import budget
from tests.support.jobs import submission
from tests.support.keyed import NOW_MS, Deployed
from tests.support.keys import job
from tests.support.told import told_by

QUEUE = PREFIX + notify_name(NAME)

NAMED: Mapping[Event, EventName] = {
    Event.WAKE: "released",
    Event.QUEUE: "waiting",
    Event.GRANT: "released",
    Event.START: "started",
    Event.TAKE_OVER: "started",
    Event.SUCCEED: "completed",
    Event.TRY_LATER: "retry",
    Event.HAND_BACK: "released",
    Event.FAIL: "failed",
    Event.EXHAUST: "dead",
    Event.BLOCK: "blocked",
    Event.UNBLOCK: "released",
    Event.GIVE_UP: "failed",
    Event.CANCEL: "cancelled",
    Event.EXPIRE: "expired",
    Event.SKIP: "skipped",
    Event.DECLINE: "skipped",
    Event.OVERTAKE: "stale",
    Event.RETRY: "released",
    Event.REPLAY: "released",
    Event.RETRY_QUEUED: "waiting",
    Event.REPLAY_QUEUED: "waiting",
    Event.DISMISS: "dismissed",
    Event.NO_REPLY: "failed",
    Event.CHOOSE: "started",
    Event.CHOOSE_NONE: "failed",
    Event.ALL_COMPLETED: "completed",
    Event.SOME_COMPLETED: "partial_failure",
    Event.NONE_COMPLETED: "failed",
    Event.ALL_SKIPPED: "skipped",
    Event.REOPEN: "started",
}
"""What is told of each cause of a transition."""

SUBMITTED: Mapping[State, EventName] = {
    State.PENDING: "submitted",
    State.SCHEDULED: "submitted",
    State.PROCESSING: "submitted",
    State.WAITING: "waiting",
    State.SKIPPED: "skipped",
}
"""The states in which jobs are submitted, and what is told of it."""

CLAIMS = {Event.START, Event.TAKE_OVER}


def test_every_transition_has_the_name_that_its_cause_says():
    for (before, event), after in TABLE.items():
        assert NAMED[event] == name_event(before, after, claimed=event in CLAIMS), (before, event)
    for state, name in SUBMITTED.items():
        assert name == name_event(None, state, claimed=False)
    assert set(EVENT_NAMES) == {*NAMED.values(), *SUBMITTED.values()} == EVENTS.keys()
    assert {State(name) for name in ENDS} == ENDED
    assert {*ENDS, "blocked"} - {"dismissed"} == set(DEFAULT)


@pytest.mark.parametrize("state", State)
def test_what_leaves_the_state_is_no_event(state: State):
    assert name_event(state, state, claimed=False) is None
    taken_over = "started" if state is State.ACTIVE else None
    assert taken_over == name_event(state, state, claimed=True)


class Walk(NamedTuple):
    """The life of a job, by numbers that choose among what may happen next."""

    start: State
    turns: list[int]
    on: tuple[EventName, ...]
    """What its `notify` names; empty for none."""
    on_feed: bool
    cuts: list[int]
    """How many records each batch of the stream has."""
    repeats: list[bool]
    """Whether it is delivered twice."""


WALKS = st.builds(
    Walk,
    st.sampled_from(list(SUBMITTED)),
    st.lists(st.integers(0, 99), max_size=12),
    st.lists(st.sampled_from(EVENT_NAMES), max_size=6, unique=True).map(tuple),
    st.booleans(),
    st.lists(st.integers(1, 4), min_size=14, max_size=14),
    st.lists(st.booleans(), min_size=14, max_size=14),
)
AT = Deployed()


@settings(max_examples=budget(100, 3000))
@given(WALKS)
def test_each_transition_is_told_once_to_whom_it_is_for(walk: Walk):
    """Whatever else changes the row in between, and however often the stream delivers."""
    AT.reset()
    happened = live(AT, walk)
    records, delivered = AT.stream.take(), Counter[int]()
    for number, size in enumerate(walk.cuts):
        batch, records = records[:size], records[size:]
        for _ in range(2 if walk.repeats[number] else 1):
            AT.sequel.handle(batch)
            delivered.update(int(each["dynamodb"]["SequenceNumber"]) for each in batch)
    assert not records
    asked, fed = told_by(AT.messages, QUEUE)
    check(asked, [name for name in happened if name in walk.on], delivered)
    check(fed, happened if walk.on_feed else [], delivered)


def live(at: Deployed, walk: Walk) -> list[str]:
    """Have the job live; returns the names of what happens, as `NAMED` has them."""
    notify = {"eventbridge": True, "on": list(walk.on)} if walk.on else None
    head = make_head(job("A"), "acme", submission(notify=notify), NOW_MS)
    first = Step(walk.start, NOW_MS, 0, "submitted")
    head = replace(head, state=walk.start, timeline=(first,))
    head = replace(head, events="jobs" if walk.on_feed else None)
    happened: list[str] = [SUBMITTED[walk.start]]
    put(at, head)
    for turn in walk.turns:
        options = [event for before, event in TABLE if before is head.state]
        chosen = turn % (len(options) + 2)
        if head.state is State.SCHEDULED and turn % 2:  # its delayed message is claimed
            steps = (
                Step(State.PENDING, NOW_MS, 0, "due"),
                Step(State.ACTIVE, NOW_MS, 0, "claimed"),
            )
            timeline = (*head.timeline, *steps)
            head = replace(head, state=State.ACTIVE, epoch=head.epoch + 1, timeline=timeline)
            happened += ["released", "started"]
        elif chosen == len(options):  # a step that is no transition, such as that of an edit
            head = replace(head, timeline=(*head.timeline, Step(head.state, NOW_MS, 0, "edited")))
        elif chosen > len(options):
            head = replace(head, hidden=not head.hidden)
        else:
            event = options[chosen]
            after = TABLE[head.state, event]
            step = Step(
                after, NOW_MS, 1, event.value
            )  # all in one millisecond: times order nothing
            head = replace(
                head,
                state=after,
                epoch=head.epoch + (event in CLAIMS),
                timeline=(*head.timeline, step),
            )
            happened.append(NAMED[event])
        put(at, head)
    return happened


def put(at: Deployed, head: Head) -> None:
    item = to_item(head, encode_spec(head.spec))
    at.aws.clients.make("dynamodb").put_item(TableName=DESCRIPTOR.jobs_table, Item=item)


def check(found: list[JobEvent], expected: list[str], delivered: Counter[int]) -> None:
    """One event each, as often as its record came; a receiver tells repeats and order apart.

    Of a record that has two transitions, the numbers are in sequence.
    """
    ids = Counter(event.id for event in found)
    assert ids == Counter({event.id: delivered[int(event.sequence) // 2] for event in found})
    once = {event.id: event for event in found}.values()
    in_order = sorted(once, key=lambda event: int(event.sequence))
    assert [f"job.{name}" for name in expected] == [event.event for event in in_order]
    epochs = [event.epoch for event in in_order]
    assert sorted(epochs) == epochs
