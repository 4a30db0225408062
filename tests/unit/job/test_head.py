"""The head: what is stored once comes back whole, and a reason stays a sentence."""

from hypothesis import given
from hypothesis import strategies as st

from joblane.contract.job import job_view
from joblane.formats.times import rfc3339
from joblane.job.head import Head, make_head, with_step
from joblane.state.lifecycle import State
from joblane.state.timeline import STEP_REASON_CHARS, Step
from tests.support.jobs import JOB, submission

STEPS = st.builds(
    Step,
    state=st.sampled_from(State),
    at_ms=st.integers(0, 1 << 42),
    attempt=st.integers(0, 100),
    reason=st.text(max_size=STEP_REASON_CHARS),
    agent=st.none() | st.text(max_size=20),
    records=st.none() | st.integers(0, 1 << 40),
) | st.builds(
    Step,
    state=st.just(State.BLOCKED),
    at_ms=st.integers(0, 1 << 42),
    attempt=st.integers(0, 100),
    reason=st.text(max_size=STEP_REASON_CHARS),
    records=st.none() | st.just(0),
    times=st.integers(2, 1 << 40),
    first_ms=st.integers(0, 1 << 42),
)


@given(STEPS)
def test_a_step_survives_its_text(step: Step):
    assert step == Step.decode(step.encode())


def test_a_long_reason_is_cut_at_a_word_and_shows_it():
    step = Step(State.FAILED, 1, 1, "not started: " + "because " * 40)
    reason = Step.decode(step.encode()).reason
    assert len(reason) <= STEP_REASON_CHARS
    assert reason.endswith("because\u2026")


def test_times_are_rfc3339_with_milliseconds():
    assert "2026-11-21T02:07:09.005Z" == rfc3339(1_795_226_829_005)


def test_blocks_in_a_row_stand_in_one_line():
    once, twice, thrice = (blocking(n) for n in (1, 2, 3))
    assert ["pending", "active", "blocked"] == [step.state for step in once.timeline]
    assert once.timeline[-1].full_reason == "exit code 75: waits for app:n0"
    assert ["pending", "active", "blocked"] == [step.state for step in twice.timeline]
    last = thrice.timeline[-1]
    assert (3, once.timeline[-1].at_ms) == (last.times, last.began_ms)
    assert (
        "exit code 75: waits for app:n0 (the last of 3 times since 1970-01-01T00:00:00.002Z)"
        in (job_view(thrice).reason)
    )


def test_only_what_came_straight_back_is_taken_together():
    head = blocking(1)
    for state in (State.PENDING, State.ACTIVE, State.RETRY, State.ACTIVE, State.BLOCKED):
        head = with_step(head, Step(state, 9, 1, "because"))
    assert ["blocked", "blocked"] == [s.state for s in head.timeline if s.state is State.BLOCKED]


def test_a_job_that_blocks_ten_thousand_times_has_a_head_of_a_kilobyte():
    """Also when it waits for something else each time."""
    head = blocking(10_000, conditions=7)
    size = sum(len(step.encode()) for step in head.timeline)
    assert size < 400
    assert 10_000 == head.timeline[-1].times


def blocking(times: int, conditions: int = 1) -> Head:
    """A job that was blocked so many times, after each of them let go."""
    head = make_head(JOB, "acme", submission(), 0)
    for number in range(times):
        if number:
            head = with_step(head, Step(State.PENDING, number * 3, 0, "let go"))
        head = with_step(head, Step(State.ACTIVE, number * 3 + 1, 1, "claimed", "agent-1"))
        why = f"exit code 75: waits for app:n{number % conditions}"
        head = with_step(head, Step(State.BLOCKED, number * 3 + 2, 0, why, records=0))
    return head
