"""What becomes of a job whose queue is gone from joblane.toml, or is retired there."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from functions.status.handler import Settings, build
from functions.submission.handler import Settings as SubmissionSettings
from functions.submission.handler import build as build_submission
from joblane.aws.queue.moves import QueueMoveStore
from joblane.deployment.names import table_name
from joblane.group.array import InArray
from joblane.group.record import MemberOf
from joblane.queue.moves import QueueMove
from joblane.state.lifecycle import State
from joblane.why.explain import explain
from joblane.why.situation import Situation
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud, configure
from tests.support.jobs import JOB
from tests.support.requests import Api
from tests.support.situations import NOW, OPEN, READY, job, waits

MOST = "must be at most 4096, the most that a fleet of queue default gives"
NO_HOST = "must be none or egress: no fleet of queue default allows host (allow_host_network)"
GONE = replace(OPEN, gone=True)
MOVES = replace(OPEN, moves_to="new")


def codes(situation: Situation) -> list[str]:
    return [reason.code for reason in explain(situation)]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.PENDING, "has it no more: no agent gets it until"),
        (State.RETRY, "has it no more: no agent gets it until"),
        (State.WAITING, "when it gets its slot, no agent gets it until"),
        (State.BLOCKED, "when its condition lets it go, no agent gets it until"),
        (State.SCHEDULED, "when its run_at has come, no agent gets it until"),
    ],
)
def test_a_job_that_waits_says_that_its_queue_is_gone(state: State, words: str):
    found = {r.code: r for r in explain(Situation(job(state), NOW, queue=GONE))}
    reason = found["queue_gone"]
    assert words in reason.text
    assert f"joblane cancel {JOB}" in reason.commands


def test_nothing_else_is_said_of_agents_that_cannot_get_it():
    assert ["queue_gone"] == codes(replace(waits(READY), queue=GONE))


def test_a_job_that_runs_does_not_need_its_queue():
    head = replace(job(State.ACTIVE), agent=READY.name)
    assert "queue_gone" not in codes(Situation(head, NOW, queue=GONE, agent=READY))


def test_a_job_that_only_one_agent_may_run_comes_by_its_inbox():
    head = replace(job(State.PENDING), assigned=READY.name)
    assert "queue_gone" not in codes(Situation(head, NOW, queue=GONE, agent=READY))


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (MOVES, "its jobs move to queue new; it moves within minutes, unless it starts before"),
        (
            replace(MOVES, next_move_ms=NOW + 600_000),
            "if it has not started before, it moves when all are looked at again, from 2027-",
        ),
        (
            replace(MOVES, misfit="tenant acme may not use it"),
            "which does not take this one: tenant acme may not use it; it stays and runs where",
        ),
    ],
)
def test_a_job_of_a_retired_queue_says_where_it_goes(queue: Any, words: str):
    found = explain(replace(waits(READY), queue=queue))
    assert "about_to_start" == found[0].code  # agents still serve the queue
    (reason,) = (each for each in found if each.code == "queue_retired")
    assert words in reason.text
    assert ("new", queue.misfit) == (reason.facts["moves_to"], reason.facts["misfit"])
    assert bool(queue.misfit) == bool(reason.commands)


def test_a_job_that_only_one_agent_may_run_does_not_move():
    head = replace(job(State.PENDING), assigned=READY.name)
    assert "queue_retired" not in codes(Situation(head, NOW, queue=MOVES, agent=READY))


def test_a_member_of_an_array_stays_and_says_so():
    head = replace(job(State.PENDING), member_of=MemberOf(JOB, 7), in_array=InArray(7, 100))
    found = explain(replace(waits(READY), head=head, queue=MOVES))
    (reason,) = (each for each in found if each.code == "queue_retired")
    assert reason.text.endswith("except members of groups: it stays and runs where it is")
    assert () == reason.commands


def explained(aws: Cloud, job_id: str, **settings: str) -> dict[str, Any]:
    environment = Settings.model_validate({**FUNCTION_ENVIRONMENT, **settings})
    api = Api(build(environment, aws.clients, time.time))
    code, found = api("GET", f"/v1/jobs/{job_id}/why")
    assert 200 == code, found
    return {reason["code"]: reason for reason in found["reasons"]}


@pytest.mark.parametrize(
    ("settings", "fields", "misfit"),
    [
        ({}, {}, None),
        (
            {"JOBLANE_QUEUES": '{"default": ["other"], "bulk": ["acme"]}'},
            {},
            "tenant acme may not use it",
        ),
        (
            {},
            {"resources": {"memory_mb": 8000}},
            f"resources.memory_mb {MOST}",
        ),
        (
            {"JOBLANE_WITHOUT_HOST_NETWORK": '["default"]'},
            {"network": "host"},
            f"network {NO_HOST}",
        ),
    ],
)
def test_what_the_other_queue_does_not_take_is_named(
    aws: Cloud, settings: dict[str, str], fields: dict[str, Any], misfit: str | None
):
    api = Api(build_submission(configure(SubmissionSettings), aws.clients, time.time))
    code, made = api("POST", "/v1/jobs", {"command": ["true"], "queue": "bulk", **fields})
    assert 202 == code, made
    retired = {"JOBLANE_RETIRED": json.dumps({"bulk": "default"}), **settings}
    facts = explained(aws, made["id"], **retired)["queue_retired"]["facts"]
    assert {"queue": "bulk", "moves_to": "default", "misfit": misfit, "next_at": None} == facts
    store = QueueMoveStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    store.write("bulk", QueueMove("default", passes=1, ended_ms=0))
    facts = explained(aws, made["id"], **retired)["queue_retired"]["facts"]
    assert "1970-01-01T00:15:00.000Z" == facts["next_at"]
