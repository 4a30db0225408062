"""A retired queue takes no jobs, by name, filter or default, and shows what becomes of its jobs."""

import json
import time
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.aws.queue.moves import QueueMoveStore
from joblane.deployment.names import table_name
from joblane.queue.moves import QueueMove
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.lanes import make_lanes
from tests.support.requests import Api
from tests.support.types import described, store_type

RUN = {"command": ["true"]}

STAYS = "is retired and takes no more jobs: name another queue, or none"
MOVES = "is retired and takes no more jobs: its jobs move to queue default, so name that"


def settings(**more: str) -> dict[str, str]:
    return {
        **FUNCTION_ENVIRONMENT,
        "JOBLANE_QUEUES": '{"default": [], "old": [], "older": [], "theirs": ["other"]}',
        "JOBLANE_RETIRED": '{"old": "default", "older": null, "theirs": null}',
        "JOBLANE_THREADS": '{"default": 8, "old": 8, "older": 8, "theirs": 8}',
        **more,
    }


def submitting(aws: Cloud, **more: str) -> Api:
    environment = submission.Settings.model_validate(settings(**more))
    return Api(submission.build(environment, aws.clients, time.time))


def administering(aws: Cloud, **more: str) -> Api:
    environment = admin.Settings.model_validate(settings(**more))
    return Api(admin.build(environment, aws.clients, time.time))


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return submitting(aws)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("old", f"{MOVES}; this tenant may use default"),
        (
            "older",
            f"{STAYS}; this tenant may use default",
        ),
        ("theirs", "is unknown; this tenant may use default"),
    ],
)
def test_a_job_that_names_it_is_refused_with_what_to_name(api: Api, queue: str, said: str):
    status, problem = api("POST", "/v1/jobs", {**RUN, "queue": queue})
    assert (400, [{"field": "queue", "problem": said}]) == (status, problem["errors"])
    status, choice = api("POST", "/v1/queues/explain", {**RUN, "queue": queue})
    assert (200, None, f"queue {said}") == (status, choice["queue"], choice["reason"])


def test_nobody_is_told_to_name_a_queue_that_only_others_may_use(aws: Cloud):
    more = {"JOBLANE_RETIRED": '{"old": "theirs", "older": null}'}
    status, problem = submitting(aws, **more)("POST", "/v1/jobs", {**RUN, "queue": "old"})
    said = f"{STAYS}; this tenant may use default"
    assert (400, [{"field": "queue", "problem": said}]) == (status, problem["errors"])
    _, choice = submitting(aws, **more)("POST", "/v1/queues/explain", {**RUN, "queue": "old"})
    assert "theirs" not in json.dumps(choice)
    body = described(defaults={"queue": "old"})
    status, problem = administering(aws, **more)("PUT", "/v1/types/sync-tickets", body)
    assert (400, [{"field": "defaults.queue", "problem": STAYS}]) == (status, problem["errors"])


def test_a_type_is_told_which_queues_take_jobs(aws: Cloud):
    body = described(defaults={"queue": "none-such"})
    status, problem = administering(aws)("PUT", "/v1/types/sync-tickets", body)
    said = "is unknown; this tenant may use default"
    assert (400, [{"field": "defaults.queue", "problem": said}]) == (status, problem["errors"])


def test_in_a_batch_each_job_is_refused_by_itself(api: Api):
    jobs = [{**RUN, "queue": queue} for queue in ("old", "default", "older")]
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs})
    assert 200 == status
    entries = answer["entries"]
    assert [400, 202, 400] == [entry["status"] for entry in entries]
    assert MOVES in str(entries[0])


def test_no_filter_chooses_it_and_its_filter_is_not_evaluated(aws: Cloud):
    filters = json.dumps([["old", 20, "labels.absent == 'x'"], ["older", 10, "true"]])
    api = submitting(aws, JOBLANE_FILTERS=filters)
    status, job = api("POST", "/v1/jobs", RUN)
    assert (202, "default") == (status, job["queue"])
    _, choice = api("POST", "/v1/queues/explain", RUN)
    verdicts = {entry["queue"]: entry["verdict"] for entry in choice["entries"]}
    assert {"old": "retired", "older": "retired", "default": "takes"} == verdicts


def test_a_type_whose_queue_is_retired_is_refused_at_the_push_and_at_the_submission(aws: Cloud):
    store_type(aws, defaults={"queue": "old"})
    typed = {"type": "sync-tickets", "params": {"origin": "acme", "tickets": [1]}}
    status, problem = submitting(aws)("POST", "/v1/jobs", typed)
    assert (400, "queue") == (status, problem["errors"][0]["field"])
    body = described(defaults={"queue": "old"})
    status, problem = administering(aws)("PUT", "/v1/types/sync-tickets", body)
    assert (400, [{"field": "defaults.queue", "problem": MOVES}]) == (status, problem["errors"])


def shown(aws: Cloud) -> dict[str, Any]:
    status, answer = administering(aws)("GET", "/v1/queues")
    assert 200 == status, answer
    return {entry["name"]: entry["retired"] for entry in answer["entries"]}


def test_the_queues_say_what_becomes_of_their_jobs(aws: Cloud):
    before = {"moves_to": "default", "move": None}
    make_lanes(aws, "old", "older")
    assert {"default": None, "old": before, "older": {"moves_to": None, "move": None}} == shown(aws)
    store = QueueMoveStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    move = QueueMove("default", None, None, passes=1, moved=12, kept=3, ended_ms=0)
    store.write("old", move)
    ended = {"ended_at": "1970-01-01T00:00:00.000Z", "next_at": "1970-01-01T00:15:00.000Z"}
    assert {"moves_to": "default", "move": {"moved": 12, "kept": 3, **ended}} == shown(aws)["old"]


def test_what_moved_to_another_queue_before_is_not_shown(aws: Cloud):
    make_lanes(aws, "old", "older")
    store = QueueMoveStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    store.write("old", QueueMove("older", "acme", moved=12))
    assert {"moves_to": "default", "move": None} == shown(aws)["old"]
