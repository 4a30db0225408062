"""The lifecycle's table and decisions: what may follow what, and what an attempt's end means."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.job.exit_codes import ExitCodes
from joblane.job.spec import Retry
from joblane.state.lifecycle import (
    CLAIMABLE,
    ENDED,
    TRANSITIONS,
    Attempt,
    Outcome,
    State,
    backoff_s,
    outcome_of,
    read_exit_codes,
    settle,
)

DICE = random.Random(7)


def attempt(number: int = 1, most: int = 3, *, restartable: bool = True) -> Attempt:
    return Attempt(number, Retry(max_attempts=most), restartable)


def test_every_state_is_in_the_table_and_the_ended_ones_lead_only_to_an_operators_choice():
    assert set(TRANSITIONS) == set(State)
    waiting = {State.SCHEDULED, State.WAITING, State.PENDING, State.RETRY, State.BLOCKED}
    assert set(State) - waiting - {State.ACTIVE, State.PROCESSING} == ENDED
    reopened = {state: set(TRANSITIONS[state]) for state in ENDED if TRANSITIONS[state]}
    assert reopened == {
        State.COMPLETED: {State.PROCESSING},  # of a group that tolerated failures
        State.FAILED: {State.PENDING, State.WAITING, State.PROCESSING},
        State.PARTIAL_FAILURE: {State.PROCESSING},
        State.DEAD: {State.PENDING, State.WAITING, State.DISMISSED},
    }


def test_only_waiting_states_are_claimable():
    assert {State.PENDING, State.RETRY} == CLAIMABLE


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "oom_killed", "expected"),
    [
        (0, False, False, Outcome.SUCCEEDED),
        (1, False, False, Outcome.FAILED),
        (3, False, False, Outcome.PERMANENT),
        (None, False, False, Outcome.FAILED),  # killed by a signal
        (0, True, False, Outcome.TIMED_OUT),  # a clean exit after the time is no success
        (None, False, True, Outcome.OOM_KILLED),
    ],
)
def test_outcome_of(exit_code: int | None, timed_out: bool, oom_killed: bool, expected: Outcome):
    codes = {3: Outcome.PERMANENT}
    got = outcome_of(exit_code=exit_code, timed_out=timed_out, oom_killed=oom_killed, codes=codes)
    assert expected is got


NONE = ExitCodes()
ASKED = ExitCodes(permanent=(65, 75), blocked=(3,))
OF_A_TYPE = ExitCodes(permanent=(4,), blocked=(3,))


@pytest.mark.parametrize(
    ("named", "knows", "expected"),
    [
        (NONE, {}, {}),
        (NONE, {"waits": True}, {75: Outcome.BLOCKED}),
        (NONE, {"typed": True}, {65: Outcome.PERMANENT, 75: Outcome.BLOCKED}),
        (ASKED, {}, {65: Outcome.PERMANENT, 75: Outcome.PERMANENT, 3: Outcome.BLOCKED}),
        (  # what the job says of 75 goes before what it waits for
            ASKED,
            {"waits": True},
            {65: Outcome.PERMANENT, 75: Outcome.PERMANENT, 3: Outcome.BLOCKED},
        ),
        (
            OF_A_TYPE,
            {"typed": True},
            {65: Outcome.PERMANENT, 75: Outcome.BLOCKED}
            | {4: Outcome.PERMANENT, 3: Outcome.BLOCKED},
        ),
    ],
)
def test_exit_codes_mean_what_the_job_says_and_nothing_by_themselves(
    named: ExitCodes, knows: dict[str, bool], expected: dict[int, Outcome]
):
    assert expected == read_exit_codes(named, **({"typed": False, "waits": False} | knows))


@pytest.mark.parametrize(
    ("outcome", "with_attempts", "without", "not_restartable"),
    [
        (Outcome.SUCCEEDED, State.COMPLETED, State.COMPLETED, State.COMPLETED),
        (Outcome.FAILED, State.RETRY, State.DEAD, State.DEAD),
        (Outcome.PERMANENT, State.FAILED, State.FAILED, State.FAILED),
        (Outcome.REFUSED, State.FAILED, State.FAILED, State.FAILED),
        (Outcome.TIMED_OUT, State.RETRY, State.DEAD, State.DEAD),
        (Outcome.OOM_KILLED, State.RETRY, State.DEAD, State.DEAD),
        (Outcome.INTERRUPTED, State.PENDING, State.PENDING, State.FAILED),
        (Outcome.LOST, State.RETRY, State.DEAD, State.FAILED),
    ],
)
def test_settle_follows_the_table_of_the_design(
    outcome: Outcome, with_attempts: State, without: State, not_restartable: State
):
    assert with_attempts is settle(outcome, "why", attempt(1), DICE).state
    assert without is settle(outcome, "why", attempt(3), DICE).state
    assert not_restartable is settle(outcome, "why", attempt(1, restartable=False), DICE).state


@given(outcome=st.sampled_from(Outcome), number=st.integers(1, 5), restartable=st.booleans())
def test_settle_never_leaves_the_table_and_never_starts_again_what_must_not(
    outcome: Outcome,
    number: int,
    restartable: bool,
):
    settlement = settle(outcome, "why", attempt(number, restartable=restartable), DICE)
    assert settlement.state in TRANSITIONS[State.ACTIVE]
    assert settlement.reason.startswith("why")
    if not restartable:
        assert settlement.state in ENDED
    if settlement.state in ENDED:
        assert settlement.delay_s == 0
        assert settlement.counted


def test_a_reason_counts_attempts_and_says_when_the_next_one_starts():
    again = settle(Outcome.FAILED, "exit code 3 after 0.2 s", attempt(1), DICE)
    assert re.fullmatch(
        r"exit code 3 after 0\.2 s \(attempt 1 of 3\); next attempt in \d+ s", again.reason
    )
    dead = settle(Outcome.FAILED, "exit code 3 after 0.0 s", attempt(1, most=1), DICE)
    assert "exit code 3 after 0.0 s (attempt 1 of 1)" == dead.reason


def test_an_interrupted_attempt_is_not_counted_and_a_lost_one_is_taken_up_at_once():
    assert not settle(Outcome.INTERRUPTED, "why", attempt(), DICE).counted
    lost = settle(Outcome.LOST, "why", attempt(), DICE)
    assert (0.0, True) == (lost.delay_s, lost.counted)


def test_an_interrupted_job_waits_for_an_agent_that_may_run_it():
    anywhere = settle(Outcome.INTERRUPTED, "interrupted", attempt(), DICE)
    assert "interrupted; waits for another agent" == anywhere.reason
    here = replace(attempt(), assigned="web-1")
    only = settle(Outcome.INTERRUPTED, "interrupted", here, DICE)
    assert "interrupted; waits for agent web-1, the only one that may run it" == only.reason


@given(number=st.integers(1, 50), seed=st.integers())
def test_backoff_is_jittered_below_its_bound_and_the_last_bound_repeats(number: int, seed: int):
    policy = Retry(backoff_s=(5, 30))
    bound = 5 if number == 1 else 30
    assert 0 <= backoff_s(policy, number, random.Random(seed)) <= bound


def test_backoff_uses_its_whole_range():
    waits = [backoff_s(Retry(), 1, random.Random(seed)) for seed in range(200)]
    assert min(waits) < 0.5
    assert max(waits) > 4.5
