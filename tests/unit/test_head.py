"""The head: what is stored once comes back whole, and a reason stays a sentence."""

from hypothesis import given
from hypothesis import strategies as st

from joblane.head import MAX_REASON, Step, rfc3339
from joblane.lifecycle import State

STEPS = st.builds(
    Step,
    state=st.sampled_from(State),
    at_ms=st.integers(0, 1 << 42),
    attempt=st.integers(0, 100),
    reason=st.text(max_size=MAX_REASON),
    agent=st.none() | st.text(max_size=20),
    records=st.none() | st.integers(0, 1 << 40),
)


@given(STEPS)
def test_a_step_survives_its_text(step: Step):
    assert step == Step.decode(step.encode())


def test_a_long_reason_is_cut_at_a_word_and_shows_it():
    step = Step(State.FAILED, 1, 1, "not started: " + "because " * 40)
    reason = Step.decode(step.encode()).reason
    assert len(reason) <= MAX_REASON
    assert reason.endswith("because\u2026")


def test_times_are_rfc3339_with_milliseconds():
    assert "2026-11-21T02:07:09.005Z" == rfc3339(1_795_226_829_005)
