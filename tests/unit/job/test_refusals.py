"""A refused operation says from which states it is possible, and what to do instead."""

from dataclasses import replace

import pytest

from joblane.job.head import Head, make_head
from joblane.job.moves import NotAllowed, plan
from joblane.job.refusals import not_ended
from joblane.state.lifecycle import ENDED, OF_GROUPS, OPERATORS, TABLE, Event, State, name_done
from tests.support.jobs import JOB, submission

ASKED = (OPERATORS - OF_GROUPS) | {Event.CANCEL}
OF_JOBS = set(State) - {State.PROCESSING, State.PARTIAL_FAILURE}


def job(state: State) -> Head:
    return replace(make_head(JOB, "acme", submission(), 1_000), state=state)


def said(state: State, event: Event) -> str:
    with pytest.raises(NotAllowed) as refused:
        plan(job(state), event, 2_000, "because")
    return str(refused.value)


@pytest.mark.parametrize("event", sorted(ASKED))
@pytest.mark.parametrize("state", sorted(OF_JOBS))
def test_every_refusal_names_the_states_of_the_table_and_what_to_do(state: State, event: Event):
    if (state, event) in TABLE:
        return
    begin = f"a job that is {state} cannot be {name_done(event)}, only one that is "
    text = said(state, event)
    assert text.startswith(begin)
    named, _, instead = text.removeprefix(begin).partition("; ")
    states = {source.value for source, by in TABLE if by is event}
    assert states == set(named.replace(" or ", ", ").split(", "))
    assert instead


@pytest.mark.parametrize(
    ("state", "event", "text"),
    [
        (
            State.FAILED,
            Event.REPLAY,
            "a job that is failed cannot be replayed, only one that is dead; retry it instead",
        ),
        (
            State.COMPLETED,
            Event.RETRY,
            (
                "a job that is completed cannot be retried, only one that is failed or dead; "
                "resubmit it instead"
            ),
        ),
        (
            State.ACTIVE,
            Event.RETRY,
            (
                "a job that is active cannot be retried, only one that is failed or dead; "
                "wait for its end, or cancel it and then resubmit it"
            ),
        ),
        (
            State.FAILED,
            Event.DISMISS,
            "a job that is failed cannot be dismissed, only one that is dead; hide it, or retry it",
        ),
        (
            State.COMPLETED,
            Event.CANCEL,
            (
                "a job that is completed cannot be cancelled, only one that is scheduled, waiting, "
                "pending, active, retry or blocked; it has ended"
            ),
        ),
    ],
)
def test_refusals_read_well(state: State, event: Event, text: str):
    assert text == said(state, event)


@pytest.mark.parametrize("state", sorted(OF_JOBS - ENDED))
def test_what_needs_an_ended_job_names_those_states(state: State):
    states = "completed, failed, dead, cancelled, expired, skipped, stale or dismissed"
    text = f"a job that is {state} cannot be hidden, only one that is {states}; "
    assert not_ended(job(state), "hidden") == f"{text}cancel it first, or wait for its end"
