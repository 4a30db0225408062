"""What calls take and how it is sent: fields, times, durations, filters, pages of lists."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import joblane
from joblane import InputError
from joblane.client import fields
from joblane.contract.edits import EditJob
from joblane.group.array import Array
from joblane.job import spec
from joblane.job.edit import EDITABLE_FIELDS
from joblane.job.exit_codes import ExitCodes
from joblane.key.policy import Concurrency
from joblane.notify.request import Notify
from joblane.schedule import fields as schedule
from tests.support.client.fake_api import FakeApi, ok

PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        (joblane.Submission, spec.Submission),
        (joblane.Resources, spec.Resources),
        (joblane.Retry, spec.Retry),
        (joblane.ExitCodes, ExitCodes),
        (joblane.Concurrency, Concurrency),
        (joblane.Notify, Notify),
        (joblane.Array, Array),
        (joblane.Timing, schedule.Timing),
        (joblane.ScheduleFields, schedule.ScheduleFields),
        (joblane.Requeue, schedule.RequeueTemplate),
    ],
)
def test_the_types_have_the_fields_of_the_specification(typed: Any, model: Any):
    assert set(typed.__annotations__) == set(model.model_fields)
    assert fields.Concurrency.__required_keys__ == {"key"}


def test_an_edit_has_the_fields_that_may_change():
    assert set(joblane.EditFields.__annotations__) == set(EDITABLE_FIELDS)
    assert {*EDITABLE_FIELDS, "reason"} == set(EditJob.model_fields)


def test_a_submission_of_a_command_has_no_type():
    given = set(joblane.SubmissionFields.__annotations__)
    assert set(joblane.Submission.__annotations__) - given == {"command", "type", "params"}


def test_times_and_durations(api: FakeApi, client: Any):
    api.answers["/v1/jobs/batch"] = ok({"entries": []})
    api.answers["/v1/queues/explain"] = ok({"queue": None})
    client.submit(
        ["true"],
        run_at=datetime(2026, 11, 21, 3, 0, tzinfo=PARIS),
        deadline=datetime(2026, 11, 21, 3, 0, 0, 5, tzinfo=UTC),
        timeout_s=timedelta(minutes=5),
        heartbeat_timeout_s=2,
        retry={"max_attempts": 2, "backoff_s": [timedelta(seconds=1), 2]},
        queue=None,
    )
    client.submit_batch([{"command": ["true"], "timeout_s": timedelta(seconds=1)}])
    client.explain_queue({"command": ["true"], "run_at": datetime(2026, 11, 21, tzinfo=UTC)})
    assert api.requests[0].body == {
        "command": ["true"],
        "run_at": "2026-11-21T02:00:00Z",
        "deadline": "2026-11-21T03:00:00.000005Z",
        "timeout_s": 300,
        "heartbeat_timeout_s": 2,
        "retry": {"max_attempts": 2, "backoff_s": [1, 2]},
    }
    assert {"jobs": [{"command": ["true"], "timeout_s": 1}]} == api.requests[1].body
    assert "2026-11-21T00:00:00Z" == api.requests[2].body["run_at"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"run_at": datetime(2026, 11, 21)}, "run_at has no time zone"),  # noqa: DTZ001
        ({"deadline": timedelta(1)}, "deadline must be a datetime .*not a timedelta"),
        ({"deadline": 5}, "deadline must be a datetime"),
        ({"run_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "run_at is not"),
        ({"timeout_s": "5m"}, "timeout_s must be a number of seconds or a timedelta; not a str"),
        ({"timeout_s": True}, "timeout_s must be a number"),
        ({"retry": {"backoff_s": ["1"]}}, "retry.backoff_s must be a number of seconds"),
    ],
)
def test_no_time(api: FakeApi, client: Any, given: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        client.submit(["true"], **given)
    assert api.requests == []


@pytest.mark.parametrize("command", ["echo hi", b"echo", {"echo"}, None, 5, iter(["echo"])])
def test_a_command_is_a_list(api: FakeApi, client: Any, command: Any):
    with pytest.raises(InputError, match="must be a list of words"):
        client.submit(command)
    assert api.requests == []


def test_filters(api: FakeApi, client: Any):
    since = datetime(2026, 11, 21, tzinfo=UTC)
    list(client.list(labels={"team": "web"}, since=since, groups=False, hidden=True))
    assert {
        "limit": "100",
        "label": "team=web",
        "since": "2026-11-21T00:00:00Z",
        "hidden": "true",
    } == api.requests[-1].query
    api.answers["/v1/audit"] = ok({"entries": []})
    client.audit(until=since)
    assert "2026-11-21T00:00:00Z" == api.requests[-1].query["until"]
    sent = fields.encode_filters({"labels": {"b": "c"}, "label": ["a=b"]})
    assert {"label": ["a=b", "b=c"]} == sent
    with pytest.raises(InputError, match="labels must be a mapping"):
        client.list_page(labels="team=web")
    with pytest.raises(InputError, match="since has no time zone"):
        client.list_page(since=datetime(2026, 11, 21))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda client, limit: client.list_agents(limit, facts=["os"]), "/v1/agents"),
        (lambda client, limit: client.list_conditions(limit), "/v1/conditions"),
        (lambda client, limit: client.list_audit(limit=limit), "/v1/audit"),
        (lambda client, limit: client.list_audit("01J", limit), "/v1/jobs/01J/audit"),
        (lambda client, limit: client.list_keys("sync", limit), "/v1/keys/sync"),
        (lambda client, limit: client.list_dead_letters(limit), "/v1/dlq"),
    ],
)
def test_lists_follow_their_pages(api: FakeApi, client: Any, call: Any, path: str):
    def page(request: Any) -> Any:
        start = int(request.query.get("next") or 0)
        numbers = range(start, min(start + int(request.query["limit"]), 150))
        entries = [{"id": str(number), "state": "dead"} for number in numbers]
        following = str(numbers.stop) if numbers.stop < 150 else None
        return ok({"entries": entries, "next": following}) if request.path == path else None

    api.more = page
    assert 150 == len(list(call(client, None)))
    assert 120 == len(list(call(client, 120)))
    assert ["100", "20"] == [request.query["limit"] for request in api.requests[-2:]]
    api.answers[path] = (200, {}, json.dumps({"next": None}).encode())
    with pytest.raises(joblane.AnswerError, match="it has no entries"):
        list(call(client, None))
