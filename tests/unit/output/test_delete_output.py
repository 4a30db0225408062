"""The deletion of a job takes its output along: all of it, in requests of bounded size."""

import random
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.errors import AwsRefused
from joblane.aws.job import output_store as store_module
from joblane.job.chunk import Chunk
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.job.output import OutputRecord, stream_name
from joblane.service.job import delete as delete_module
from joblane.service.job.delete import OUTPUT_CALLS
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW = int(time.time() * 1000)
OTHER = JOB[:-1] + "Z"
NOISE = random.Random(12).randbytes(20_000)
"""Too large for the table, however it is compressed."""


def api_of(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


def run_dead_job(aws: Cloud, job_id: str, *attempts: int) -> Head:
    """A dead job, each of whose attempts stored so many chunks; every third is an object."""
    head = make_head(job_id, "acme", submission(), NOW)
    aws.jobs.put_new(head)
    for n, chunks in enumerate(attempts, 1):
        head = aws.jobs.claim(named(job_id), "agent-1", NOW)
        stream = stream_name("acme", job_id, head.epoch)
        for seq in range(1, chunks + 1):
            data = NOISE if seq % 3 == 0 else b"line\n"
            aws.output.write(stream, Chunk.of([OutputRecord(seq, "stdout", NOW, data)]))
        state = State.RETRY if n < len(attempts) else State.DEAD
        step = Step(state, NOW, head.attempt, "exit code 1", records=chunks)
        head = aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, exit_code=1))
    return head


def count_stored(aws: Cloud) -> Counter[str]:
    """Rows and objects by job."""
    rows = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.output_table)["Items"]
    listed = aws.clients.make("s3").list_objects_v2(Bucket=DESCRIPTOR.bucket)
    return Counter(
        [row["stream"]["S"].split("/")[1] for row in rows]
        + [entry["Key"].split("/")[2] for entry in listed.get("Contents", [])]
    )


def delete(api: Api, job_id: str = JOB) -> int:
    return int(api.raw("DELETE", f"/v1/jobs/{job_id}")["statusCode"])


def test_a_deleted_job_takes_the_output_of_all_its_attempts_along(aws: Cloud):
    run_dead_job(aws, JOB, 30, 0, 4)
    run_dead_job(aws, OTHER, 3)
    assert {JOB: 34 + 11, OTHER: 4} == count_stored(aws)
    assert 204 == delete(api_of(aws))
    assert {OTHER: 4} == count_stored(aws)


def test_output_beyond_what_one_request_deletes_takes_more_requests(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    """The job is there until the last one, so that each can be repeated."""
    monkeypatch.setattr(store_module, "ROWS_DELETED", 2)
    run_dead_job(aws, JOB, 3 * OUTPUT_CALLS, 2 * OUTPUT_CALLS)
    api, left = api_of(aws), [count_stored(aws)[JOB]]
    statuses: list[int] = []
    while statuses[-1:] != [204]:
        answer = api.raw("DELETE", f"/v1/jobs/{JOB}")
        statuses.append(answer["statusCode"])
        left.append(count_stored(aws)[JOB])
        if answer["statusCode"] == 503:
            assert "1" == answer["headers"]["Retry-After"]
            assert 200 == api("GET", f"/v1/jobs/{JOB}")[0]
    assert [503, 503, 204] == statuses
    assert all(later < earlier for earlier, later in pairwise(left))
    assert 0 == left[-1]


def test_a_request_that_finds_only_empty_streams_ends_too(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(delete_module, "OUTPUT_S", -1.0)
    run_dead_job(aws, JOB, 1)
    assert 503 == delete(api_of(aws))


@pytest.mark.parametrize("operation", ["Query", "DeleteObjects", "BatchWriteItem", "DeleteItem"])
@pytest.mark.parametrize("when", ["before-call", "after-call"])
def test_a_deletion_that_failed_at_any_moment_is_repeated(aws: Cloud, operation: str, when: str):
    run_dead_job(aws, JOB, 30, 4)
    failures = [AwsRefused({"Error": {"Code": "InternalError"}}, operation)]

    def fail(**_: Any) -> None:
        if failures:
            raise failures.pop()

    aws.emitter().register(f"{when}.*.{operation}", fail)
    api = api_of(aws)
    assert 503 == delete(api)
    deleted = (when, operation) == ("after-call", "DeleteItem")
    assert (404 if deleted else 204) == delete(api)
    assert {} == count_stored(aws)


def test_an_object_that_s3_does_not_delete_keeps_its_row(aws: Cloud):
    run_dead_job(aws, JOB, 3)

    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Errors"] = [{"Key": "x", "Code": "InternalError", "Message": "try again"}]

    aws.emitter().register("after-call.s3.DeleteObjects", refuse)
    assert 503 == delete(api_of(aws))
    assert 3 == count_stored(aws)[JOB]


def test_keys_that_a_throttled_table_left_out_are_sent_again(aws: Cloud):
    run_dead_job(aws, JOB, 30)
    throttled = [2]

    def leave_out(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        if throttled[0]:
            throttled[0] -= 1
            ((table, entries),) = params["RequestItems"].items()
            params["RequestItems"] = {table: entries[:1]}
            context["left_out"] = {table: entries[1:]}

    def say_so(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        parsed["UnprocessedItems"] = context.get("left_out", {})

    emitter = aws.emitter()
    emitter.register("provide-client-params.dynamodb.BatchWriteItem", leave_out)
    emitter.register("after-call.dynamodb.BatchWriteItem", say_so)
    assert 204 == delete(api_of(aws))
    assert {} == count_stored(aws)
    assert [0] == throttled


def test_the_output_of_a_running_job_stays(aws: Cloud):
    run_dead_job(aws, OTHER, 1)
    head = make_head(JOB, "acme", submission(), NOW)
    aws.jobs.put_new(head)
    aws.jobs.claim(named(JOB), "agent-1", NOW)
    aws.output.write(
        stream_name("acme", JOB, 1), Chunk.of([OutputRecord(1, "stdout", NOW, b"x\n")])
    )
    assert 409 == delete(api_of(aws))
    assert {JOB: 1, OTHER: 1} == count_stored(aws)


def test_attempts_that_had_no_output_are_not_looked_at(aws: Cloud):
    calls: Counter[str] = Counter()
    aws.emitter().register("before-call", lambda model, **_: calls.update([model.name]))
    run_dead_job(aws, JOB, 0, 0, 1)
    assert 204 == delete(api_of(aws))
    assert 1 == calls["Query"]
