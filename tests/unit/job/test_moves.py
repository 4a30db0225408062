"""Every state met by every event: what is allowed does what the table says, the rest is refused.

Hypothesis then lets events come in any order, late and twice, and checks what must never be.
"""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.formats.times import rfc3339
from joblane.group.record import Group
from joblane.job.edit import EDITABLE
from joblane.job.head import Head, make_head, with_step
from joblane.job.moves import Due, NotAllowed, apply, due, plan, rearm
from joblane.state.lifecycle import (
    ENDED,
    OF_GROUPS,
    TABLE,
    TRANSITIONS,
    Attempt,
    Event,
    Outcome,
    State,
    settle,
)
from joblane.state.timeline import Step
from tests.support.depth import budget
from tests.support.jobs import JOB, submission

OPERATORS = {
    Event.REOPEN,
    Event.RETRY,
    Event.REPLAY,
    Event.RETRY_QUEUED,
    Event.REPLAY_QUEUED,
    Event.DISMISS,
}


def job(state: State, **spec: object) -> Head:
    head = make_head(JOB, "acme", submission(**spec), 1_000)
    return replace(head, state=state)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_every_event_in_every_state(state: State, event: Event):
    head = job(state, **({"target": "_all"} if event in OF_GROUPS else {}))
    to = TABLE.get((state, event))
    if to is None or state is State.ACTIVE:
        with pytest.raises(NotAllowed, match=f"that is {state} cannot be "):
            plan(head, event, 2_000, "because")
        return
    step = plan(head, event, 2_000, "because")
    after = apply(head, event, step, expires_at=9 if to in ENDED else None)
    assert to is after.state
    assert (after.expires_at is None) == (to not in ENDED)
    assert after.timeline[-1].reason.startswith("because")
    assert 2 == len(after.timeline)


@pytest.mark.parametrize("state", State)
def test_a_step_that_the_table_does_not_have_is_a_defect(state: State):
    for event in Event:
        for to in State:
            if TABLE.get((state, event)) is not to:
                with pytest.raises(ValueError, match="does not move a job"):
                    apply(job(state), event, Step(to, 2_000, 0, "because"))


def test_only_a_group_is_moved_as_one_and_then_in_no_other_way():
    with pytest.raises(NotAllowed, match="no group"):
        plan(job(State.FAILED), Event.REOPEN, 2_000, "because")
    group = replace(job(State.FAILED, target="_all"), group=Group(2, JOB))
    assert State.PROCESSING is plan(group, Event.REOPEN, 2_000, "because").state
    with pytest.raises(NotAllowed, match="a group of 2 jobs, which cannot be retried as one job"):
        plan(group, Event.RETRY, 2_000, "because")


def test_what_has_ended_is_moved_by_operators_only():
    assert OPERATORS >= {event for state, event in TABLE if state in ENDED}


@pytest.mark.parametrize("event", [Event.RETRY, Event.REPLAY])
def test_a_job_that_must_not_start_twice_is_not_started_again(event: Event):
    dead = replace(job(State.DEAD, restartable=False), attempt=1)
    with pytest.raises(NotAllowed, match="submit it again"):
        plan(dead, event, 2_000, "because")
    assert State.PENDING is plan(replace(dead, attempt=0), event, 2_000, "because").state


def test_a_job_whose_deadline_has_passed_is_not_started_again():
    dead = job(State.DEAD, deadline=rfc3339(5_000))
    with pytest.raises(NotAllowed, match="deadline 1970-01-01T00:00:05"):
        plan(dead, Event.RETRY, 5_000, "because")
    assert State.PENDING is plan(dead, Event.RETRY, 4_999, "because").state


@pytest.mark.parametrize(
    ("state", "wake_at", "deadline", "expected"),
    [
        (State.SCHEDULED, None, None, Due.NOTHING),
        (State.SCHEDULED, 11, None, Due.NOTHING),
        (State.SCHEDULED, 10, None, Due.WAKE),
        (State.SCHEDULED, 10, 10, Due.EXPIRE),
        (State.PENDING, 10, None, Due.SEND),
        (State.PENDING, 10, 11, Due.SEND),
        (State.PENDING, 10, 10, Due.EXPIRE),
        (State.RETRY, 10, 10, Due.EXPIRE),
        (State.BLOCKED, 9, 9, Due.EXPIRE),
        (State.ACTIVE, 10, 10, Due.TELL),
        (State.ACTIVE, 10, None, Due.REARM),
        (State.ACTIVE, 10, 11, Due.REARM),
        (State.RETRY, 10, None, Due.REARM),
    ],
)
def test_what_a_due_row_asks_for(
    state: State, wake_at: int | None, deadline: int | None, expected: Due
):
    spec = {} if deadline is None else {"deadline": rfc3339(deadline)}
    head = replace(make_head(JOB, "acme", submission(**spec), 1), state=state, wake_at_ms=wake_at)
    assert expected is due(head, 10)


def test_a_job_whose_message_was_sent_after_its_time_to_reply_is_looked_at_again():
    """Its agent's claim is refused by then, and its message deleted."""
    head = replace(make_head(JOB, "acme", submission(), 1), assigned="agent-1", reply_by_ms=60_000)
    assert 60_000 == rearm(head, 59_999).wake_at_ms
    late = rearm(head, 60_000)
    assert Due.JUDGE is due(late, late.wake_at_ms or 0)


def test_a_running_job_of_one_agent_is_judged_at_its_deadline():
    """That agent may be lost, and nobody else could ever end the job."""
    head = make_head(JOB, "acme", submission(deadline=rfc3339(10)), 1)
    late = replace(head, wake_at_ms=10, assigned="agent-1")
    assert Due.JUDGE is due(replace(late, state=State.ACTIVE), 10)
    assert Due.EXPIRE is due(replace(late, state=State.PENDING), 10)


def test_what_was_dealt_with_waits_for_its_deadline_or_for_nothing():
    head = job(State.PENDING, deadline=rfc3339(5_000))
    assert 5_000 == rearm(head, 4_999).wake_at_ms
    assert rearm(replace(head, state=State.ACTIVE), 5_000).wake_at_ms is None
    assert rearm(job(State.PENDING), 1).wake_at_ms is None


@pytest.mark.parametrize("state", sorted(EDITABLE))
def test_a_job_that_waits_beyond_its_deadline_is_due(state: State):
    """Its message is deleted by whoever receives it, so only the requeue function ends it."""
    late = rearm(replace(job(State.PENDING, deadline=rfc3339(5_000)), state=state), 9_000)
    assert Due.EXPIRE is due(late, 9_000)


def test_a_new_job_waits_for_its_time_or_in_its_lane():
    at = {"run_at": rfc3339(5_000), "deadline": rfc3339(9_000)}
    early, late = (make_head(JOB, "acme", submission(**at), n) for n in (1, 5_000))
    assert (State.SCHEDULED, 5_000, 5_000) == (early.state, early.next_at_ms, early.wake_at_ms)
    assert (State.PENDING, None, 9_000) == (late.state, late.next_at_ms, late.wake_at_ms)


@dataclass
class Table:
    """The jobs table with one job, after the rules of `JobStore`: what is refused does nothing."""

    head: Head
    rng: random.Random
    starts: int = 0
    """How often an agent has started it."""
    held: list[Head] = field(default_factory=list)
    """Every head that an agent got by a claim: an old one is an agent that lost its lease."""

    def claim(self, now: int) -> None:
        """A message of the job reaches an agent."""
        deadline = self.head.deadline_ms
        if deadline is not None and deadline <= now:
            return
        if TRANSITIONS[self.head.state] >= {State.ACTIVE} and self.head.state is not State.ACTIVE:
            self._start(now)

    def take_over(self, now: int) -> None:
        """An agent finds that the holder's lease has ended."""
        head = self.head
        if head.state is not State.ACTIVE:
            return
        settlement = settle(Outcome.LOST, "lost", head.current_attempt(), self.rng)
        if settlement.state is State.RETRY:
            self._start(now)
        else:
            self._settle(head, Outcome.LOST, now)

    def _start(self, now: int) -> None:
        number = self.head.attempt + 1
        step = Step(State.ACTIVE, now, number, "claimed", "agent-1")
        self.head = replace(with_step(self.head, step), epoch=self.head.epoch + 1)
        self.starts += 1
        self.held.append(self.head)

    def end(self, which: int, outcome: Outcome, now: int) -> None:
        """One of those that ever held the job reports an end."""
        if self.held:
            self._settle(self.held[which % len(self.held)], outcome, now)

    def _settle(self, held: Head, outcome: Outcome, now: int) -> None:
        if self.head.state is not State.ACTIVE or self.head.epoch != held.epoch:
            return  # stale_completion_ignored
        settlement = settle(outcome, "why", held.current_attempt(), self.rng)
        attempt = held.attempt if settlement.counted else held.attempt - 1
        self.head = with_step(self.head, Step(settlement.state, now, attempt, settlement.reason))

    def move(self, event: Event, now: int) -> None:
        """An operator, the clock or a condition asks."""
        try:
            step = plan(self.head, event, now, "asked")
        except NotAllowed:
            return
        self.head = apply(self.head, event, step, 1 if step.state in ENDED else None)


ACTIONS = st.one_of(
    st.just(("claim",)),
    st.just(("take over",)),
    # Mostly the one that holds the job, now and then one that lost it long ago.
    st.tuples(st.just("end"), st.sampled_from([-1, -1, -1, 0, 1]), st.sampled_from(Outcome)),
    st.tuples(st.just("move"), st.sampled_from(Event)),
    # Drawn from all alone, few jobs would come far: something that the job's state allows.
    st.tuples(st.just("go on"), st.integers(0, 100)),
    st.tuples(st.just("go on"), st.integers(0, 100)),
)


def list_allowed(head: Head) -> list[tuple[object, ...]]:
    """What may happen next to a job, by the table; what does not end it comes more often."""
    if head.state is State.ACTIVE:
        goes_on = [Outcome.FAILED, Outcome.BLOCKED, Outcome.INTERRUPTED, Outcome.LOST]
        return [("end", -1, outcome) for outcome in (*goes_on * 4, *Outcome)]
    events = [event for state, event in TABLE if state is head.state]
    lives = [event for event in events if TABLE[head.state, event] not in ENDED]
    return [("claim",) if event is Event.START else ("move", event) for event in lives * 6 + events]


def act(table: Table, action: tuple[object, ...], now: int) -> None:
    match action:
        case ("go on", int(n)):
            if choices := list_allowed(table.head):
                act(table, choices[n % len(choices)], now)
        case ("claim",):
            table.claim(now)
        case ("take over",):
            table.take_over(now)
        case ("end", int(which), Outcome() as outcome):
            table.end(which, outcome, now)
        case ("move", Event() as event):
            # START and TAKE_OVER are the agents' own; the store has no move for them.
            if event not in {Event.START, Event.TAKE_OVER}:
                table.move(event, now)


@given(
    actions=st.lists(ACTIONS, min_size=10, max_size=40),
    most=st.integers(1, 4),
    restartable=st.booleans(),
    seed=st.integers(),
)
@settings(max_examples=budget(150, 1000), deadline=None)
def test_whatever_comes_late_twice_or_in_disorder(
    actions: list[tuple[object, ...]],
    most: int,
    restartable: bool,
    seed: int,
):
    spec = {"restartable": restartable, "retry": {"max_attempts": most}}
    table = Table(make_head(JOB, "acme", submission(**spec), 0), random.Random(seed))
    for now, action in enumerate(actions, 1):
        before = table.head
        act(table, action, now)
        after = table.head
        if len(after.timeline) < len(before.timeline):  # blocks in a row become one line
            assert after.timeline[:-1] == before.timeline[:-3]
            earlier = before.timeline[-3]
            assert earlier.times + 1 == after.timeline[-1].times
            assert (State.BLOCKED, State.BLOCKED) == (earlier.state, after.state)
        else:
            assert after.timeline[: len(before.timeline)] == before.timeline
            assert len(after.timeline) - len(before.timeline) in {0, 1}
        if after is before:
            continue
        assert after.state in TRANSITIONS[before.state]
        assert after.state is after.timeline[-1].state
        assert after.attempt <= most
        assert after.epoch >= before.epoch
        if before.state in ENDED:
            assert action[0] == "go on" or action[1] in OPERATORS
            assert after.state in {State.PENDING, State.WAITING, State.DISMISSED}
    times = [step.at_ms for step in table.head.timeline]
    assert sorted(times) == times
    if not restartable:
        assert table.starts <= 1


@given(actions=st.lists(ACTIONS, max_size=20), cut=st.integers(0, 20), seed=st.integers())
@settings(max_examples=budget(50, 200), deadline=None)
def test_what_is_repeated_at_once_changes_nothing(
    actions: list[tuple[object, ...]], cut: int, seed: int
):
    """SQS and the SDK repeat: an end, a move or a takeover that was made is refused again."""
    table = Table(make_head(JOB, "acme", submission(), 0), random.Random(seed))
    for now, action in enumerate(actions[:cut], 1):
        act(table, action, now)
        head, starts = table.head, table.starts
        if action[0] in {"claim", "end"}:
            act(table, action, now)
            assert (head, starts) == (table.head, table.starts)


def test_attempts_come_from_the_head():
    head = replace(job(State.ACTIVE, retry={"max_attempts": 7}), attempt=2)
    attempt = head.current_attempt()
    assert isinstance(attempt, Attempt)
    assert (2, 7, True) == (attempt.number, attempt.retry.max_attempts, attempt.started)
