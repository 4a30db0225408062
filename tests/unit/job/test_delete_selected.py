"""Deleting what filters select: a page a request, each job as it was read."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from joblane.aws.audit import AuditStore, TrailQuery
from joblane.aws.errors import AwsRefused
from joblane.contract.cursors import encode_cursor
from joblane.contract.queries import SelectJobs
from joblane.job.chunk import Chunk
from joblane.job.head import Head
from joblane.job.output import OutputRecord, stream_name
from joblane.service.job import delete_selected
from joblane.service.job.delete import JobDeleter
from joblane.state.lifecycle import ENDED, State
from tests.support.aws import AUDIT_TABLE, Cloud
from tests.support.fleet import beat
from tests.support.memory import Memory
from tests.support.requests import Api
from tests.unit.job.test_selected_jobs import (
    AGENTS,
    NOW,
    NOW_MS,
    api_of,
    end,
    page,
    pages,
    run,
    submit,
)


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


@pytest.fixture(name="clock")
def _clock() -> Iterator[float]:
    """A millisecond passes with every look at it."""
    return (NOW + number / 1000 for number in count())


@pytest.fixture(name="api")
def _api(aws: Cloud, clock: Iterator[float]) -> Api:
    return api_of(aws, clock)


def there(aws: Cloud, *job_ids: str) -> list[str]:
    return [head.job_id for head in aws.jobs.heads(job_ids)]


def test_what_has_ended_and_matches_is_deleted(aws: Cloud, api: Api):
    web = {"labels": {"team": "web"}}
    done, failed, pending = (submit(api, **web) for _ in range(3))
    other = submit(api)
    end(aws, done, State.COMPLETED)
    end(aws, failed)
    end(aws, other)
    answer = page(api, "delete", label="team=web")
    assert {"examined": 2, "deleted": 2, "refused": [], "next": None} == answer
    assert {pending, other} == set(there(aws, done, failed, pending, other))
    assert {"completed", "failed"} <= ENDED


def test_jobs_that_wait_are_deleted_if_their_state_is_named(aws: Cloud, api: Api):
    pending, running = submit(api), submit(api)
    beat(aws, "web-000", NOW_MS)
    run(aws, running)
    assert 1 == page(api, "delete", state="pending")["deleted"]
    answer = page(api, "delete", state="active")
    assert (1, 0) == (answer["examined"], answer["deleted"])
    (refused,) = answer["refused"]
    assert running == refused["id"]
    assert "cancel it first" in refused["detail"]
    assert [running] == there(aws, pending, running)


def test_a_request_begins_no_job_when_its_time_is_up(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    jobs = [submit(api) for _ in range(20)]
    for job_id in jobs:
        end(aws, job_id)
    monkeypatch.setattr(delete_selected, "MOST_S", 0)
    found = pages(api, "delete", state="failed")
    assert [8, 8, 4] == [part["deleted"] for part in found]
    assert [] == there(aws, *jobs)


def test_a_job_with_much_output_takes_more_requests_and_those_after_it_follow(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    jobs = [submit(api) for _ in range(12)]
    for job_id in jobs:
        end(aws, job_id)
    large = jobs[-3]
    stream = stream_name("acme", large, 1)
    for seq in range(1, 6):
        aws.output.write(stream, Chunk.of([OutputRecord(seq, "stdout", NOW_MS, b"line\n")]))
    monkeypatch.setattr("joblane.service.job.delete.OUTPUT_CALLS", 2)
    monkeypatch.setattr("joblane.aws.job.output_store.ROWS_DELETED", 1)
    found = pages(api, "delete", state="failed")
    assert 12 == sum(part["deleted"] for part in found)
    assert 12 == sum(part["examined"] for part in found)
    # the page of eight without the large one, once for a part of it, once for its rest, the others
    assert [7, 0, 1, 4] == [part["deleted"] for part in found]
    assert [] == there(aws, *jobs)


def test_a_job_that_cannot_be_deleted_is_listed_and_the_others_are(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    jobs = [submit(api) for _ in range(12)]
    for job_id in jobs:
        end(aws, job_id)
    delete, stuck = JobDeleter.delete, jobs[5]

    def refuse_one(deleter: JobDeleter, head: Head, *, exact: bool) -> None:
        if head.job_id == stuck:
            said = "arn:aws:iam::1:role/x is not allowed"
            raise AwsRefused({"Error": {"Code": "AccessDenied", "Message": said}}, "Delete")
        delete(deleter, head, exact=exact)

    monkeypatch.setattr(JobDeleter, "delete", refuse_one)
    found = pages(api, "delete", state="failed")
    assert 11 == sum(part["deleted"] for part in found)
    told = {
        "id": stuck,
        "index": None,
        "detail": "a service behind this API refused it: AccessDenied",
    }
    assert [told] == [each for part in found for each in part["refused"]]
    assert [stuck] == there(aws, *jobs)


def test_a_group_is_deleted_with_its_members_and_counts_as_one(aws: Cloud, api: Api):
    older = submit(api)
    end(aws, older)
    for name in AGENTS[:3]:
        beat(aws, name, NOW_MS)
    group = submit(api, target="_all")
    pages(api, "cancel", groups="true")
    newer = submit(api)
    end(aws, newer)
    members = aws.job(group)
    assert members.group is not None
    ids = [members.group.id_of(number) for number in range(3)]
    assert 3 == len(there(aws, *ids))
    assert 3 == page(api, "delete", queue="default")["deleted"]
    assert [] == there(aws, older, group, newer, *ids)


def test_a_group_with_members_that_run_is_refused_by_name(aws: Cloud, api: Api):
    beat(aws, AGENTS[0], NOW_MS)
    group = submit(api, target="_all")
    answer = page(api, "delete", groups="true", state="processing")
    assert [group] == [entry["id"] for entry in answer["refused"]]
    assert "cancel it first" in answer["refused"][0]["detail"]
    assert [group] == there(aws, group)


@pytest.mark.parametrize("query", [{}, {"until": "2100-01-01T00:00:00Z"}, {"hidden": "true"}])
def test_one_filter_is_required(aws: Cloud, api: Api, query: dict[str, str]):
    job_id = submit(api)
    end(aws, job_id)
    status, problem = api("POST", "/v1/jobs/delete", query=query)
    assert 400 == status
    assert "at least one filter" in problem["detail"]
    assert [job_id] == there(aws, job_id)


def test_nobody_deletes_another_tenants_jobs(aws: Cloud, api: Api, clock: Iterator[float]):
    job_id = submit(api)
    end(aws, job_id)
    theirs = api_of(aws, clock, "client-other")
    assert 0 == page(theirs, "delete", state="failed")["examined"]
    query = SelectJobs(state=(State.FAILED,))
    forged = encode_cursor(f"{job_id}:0", query.bound)
    assert 0 == page(theirs, "delete", state="failed", next=forged)["deleted"]
    assert [job_id] == there(aws, job_id)


def test_the_audit_trail_says_what_was_asked(aws: Cloud, api: Api):
    page(api, "delete", state="failed", label="team=web")
    trail = AuditStore(aws.clients.make("dynamodb"), AUDIT_TABLE)
    (record,), _ = trail.of_tenant("acme", TrailQuery(limit=10))
    assert ("delete-jobs", "wrong input") == (record.action, record.reason)
    assert record.asked_json is not None
    asked = json.loads(record.asked_json)
    assert (["failed"], ["team=web"]) == (asked["state"], asked["label"])
