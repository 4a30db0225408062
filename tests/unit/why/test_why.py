"""Why a job waits, runs or has ended: what is true of the reasons of every situation."""

import re

from hypothesis import given

from joblane.state.lifecycle import State
from joblane.why.explain import BY_STATE, explain, summary
from joblane.why.reason import KINDS, Reason
from joblane.why.situation import (
    Situation,
)
from tests.support.situations import FULL, OTHER, codes, job, situations, waits


@given(situations)
def test_every_situation_has_reasons_that_the_reference_lists(situation: Situation):
    reasons = explain(situation)
    assert reasons
    assert len(reasons) == len({(reason.code, reason.facts.get("fleet")) for reason in reasons})
    for reason in (*reasons, Reason("recorded", summary(situation, reasons), {})):
        assert set(reason.facts) <= set(KINDS[reason.code].facts), reason
        assert re.fullmatch(r"[^\n]*[^\n. ]", reason.text), reason.text
        assert OTHER not in reason.text or situation.head.group is not None
        assert all(command.startswith("joblane ") for command in reason.commands)
    for reason in reasons:
        assert OTHER not in str(reason.facts)
    if situation.queue and not situation.queue.settings.run_jobs and situation.lanes:
        assert situation.head.state is not State.PENDING or "paused" in codes(situation)[:2]


@given(situations)
def test_nobody_says_that_no_agents_are_there_if_some_were_not_read(situation: Situation):
    for reason in explain(situation):
        if reason.code == "no_agents" and situation.agents and situation.agents.more:
            assert "not read" in reason.text


def test_every_state_is_explained():
    assert set(State) == set(BY_STATE)


def test_the_summary_begins_with_the_state_and_its_time():
    situation = waits(FULL, head=job(State.PENDING, ago_s=300))
    text = summary(situation, explain(situation))
    assert text.startswith("pending for 5 min, since 2027-01-15T07:55:00Z: all 4 slots of 1 agent")
