"""Results and progress of jobs: where they are stored, who can replace them, what the API shows."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2_agent.sandbox.launcher import Launcher
from functions.submission.handler import Settings, build
from joblane.aws.job.jobs import Refused
from joblane.aws.job.result_store import ResultStore
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.state.lease import PROGRESS_BYTES, AttemptProgress, Heartbeat, Progress, bound_progress
from joblane.state.lifecycle import Outcome, State
from joblane.state.result import MAX_RESULT_BYTES
from joblane.state.stats import JobStats
from joblane.state.timeline import Step
from tests.support.attempts import begin, finish, run, wait_for_output
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.jobs import JOB, named
from tests.support.meter import Meter
from tests.support.requests import Api

LARGE = "r" * 3000
LAMBDA_BYTES = 6_291_556
"""Largest answer of a Lambda function that is called synchronously."""


@pytest.fixture(name="api")
def _api(aws: Cloud, meter: Meter) -> Api:
    return Api(build(configure(Settings), meter.clients_of(aws), time.time))


def says(value: object, end: str = "") -> tuple[str, str, str]:
    """A command that gives a result; `end` is what follows."""
    return ("/bin/sh", "-c", f"echo '{json.dumps({'result': value})}' >&3; {end}")


def objects(aws: Cloud) -> dict[str, bytes]:
    s3 = aws.clients.make("s3")
    found = s3.list_objects_v2(Bucket=DESCRIPTOR.bucket).get("Contents", [])
    return {
        entry["Key"]: s3.get_object(Bucket=DESCRIPTOR.bucket, Key=entry["Key"])["Body"].read()
        for entry in found
    }


def show_job(api: Api, path: str = "") -> Any:
    status, job = api("GET", f"/v1/jobs/{JOB}{path}")
    assert 200 == status, job
    return job


def test_a_short_result_lies_in_the_row_and_is_shown_for_one_job(
    aws: Cloud, launcher: Launcher, api: Api
):
    head = run(aws, launcher, *says({"passed": 12, "of": ["é", None]}))
    assert ('{"passed":12,"of":["é",null]}', None) == (head.result, head.result_object)
    assert {} == objects(aws)
    assert {"passed": 12, "of": ["é", None]} == show_job(api)["result"]
    status, page = api("GET", "/v1/jobs")
    assert (200, [None]) == (status, [job["result"] for job in page["entries"]])


def test_a_large_result_lies_in_s3_and_goes_with_its_job(aws: Cloud, launcher: Launcher, api: Api):
    head = run(aws, launcher, *says(LARGE))
    assert head.result is None
    assert {f"results/acme/{JOB}/1": json.dumps(LARGE).encode()} == objects(aws)
    assert LARGE == show_job(api)["result"]
    assert 204 == api.raw("DELETE", f"/v1/jobs/{JOB}")["statusCode"]
    assert {} == objects(aws)


@pytest.mark.parametrize("end", ["exit 1", "exit 65", "kill -9 $$"])
@pytest.mark.parametrize("value", [1, LARGE])
def test_the_result_of_an_attempt_that_fails_is_not_kept(
    aws: Cloud, launcher: Launcher, end: str, value: object
):
    head = run(aws, launcher, *says(value, end))
    assert (None, None) == (head.result, head.result_object)
    assert {} == objects(aws)


def test_null_and_false_are_results(aws: Cloud, launcher: Launcher, api: Api):
    assert "false" == run(aws, launcher, *says(value=False)).result
    assert show_job(api)["result"] is False


def test_a_result_that_has_expired_or_was_replaced_is_not_shown(
    aws: Cloud, launcher: Launcher, api: Api
):
    run(aws, launcher, *says(LARGE))
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket, Key=f"results/acme/{JOB}/1", Body=b'"another"'
    )
    assert None is show_job(api)["result"]
    aws.clients.make("s3").delete_object(Bucket=DESCRIPTOR.bucket, Key=f"results/acme/{JOB}/1")
    assert None is show_job(api)["result"]


def test_an_answer_with_the_largest_submission_and_result_fits_lambda(aws: Cloud, api: Api):
    status, job = api("POST", "/v1/jobs", {"command": ["x", *['"' * 100_000] * 9]})
    assert 202 == status, job
    head = aws.jobs.claim(named(job["id"]), "agent-1", int(time.time() * 1000))
    result = json.dumps('"' * (MAX_RESULT_BYTES // 2 - 1)).encode()
    assert MAX_RESULT_BYTES == len(result)
    stored = ResultStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket).put(head, result)
    step = Step(State.COMPLETED, 2_000, 1, "exit code 0", records=0)
    aws.jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, result_object=stored))
    status, job = api("GET", f"/v1/jobs/{job['id']}")
    assert (200, True) == (status, job["abridged"])
    assert json.loads(result) == job["result"]
    assert len(json.dumps(json.dumps(job))) < LAMBDA_BYTES


# --- agents that are late, or that AWS does not answer


def test_a_late_agent_of_an_earlier_epoch_cannot_replace_a_result(aws: Cloud, launcher: Launcher):
    _, late = begin(aws, launcher, command=list(says("early " + LARGE)))
    taken = aws.jobs.take_over(late.head, "agent-2", int(time.time() * 1000))
    results = ResultStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    stored = results.put(taken, b'"second"')
    step = Step(State.COMPLETED, 9_000, taken.attempt, "exit code 0", records=0)
    aws.jobs.settle(taken, step, AttemptFacts(Outcome.SUCCEEDED, result_object=stored))
    asyncio.run(late.run())
    head = aws.job(JOB)
    assert (State.COMPLETED, 2, stored) == (head.state, head.epoch, head.result_object)
    assert b'"second"' == results.read(head)
    assert f"results/acme/{JOB}/1" in objects(aws)  # it expires
    facts = AttemptFacts(Outcome.SUCCEEDED, result="1")
    with pytest.raises(Refused):
        aws.jobs.settle(late.head, replace(step, at_ms=9_001), facts)


def test_a_result_is_stored_before_the_outcome_and_waits_for_s3(aws: Cloud, launcher: Launcher):
    _, attempt = begin(aws, launcher, command=list(says(LARGE)))
    real, tries = attempt.parts.results, []

    class Unreachable(ResultStore):
        def put(self, head: Head, result: bytes) -> Any:
            tries.append(aws.jobs.get(JOB))
            if len(tries) < 3:
                raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")
            return real.put(head, result)

    store = Unreachable(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    attempt.parts = replace(attempt.parts, results=store)
    asyncio.run(attempt.run())
    assert [State.ACTIVE] * 3 == [head.state for head in tries if head is not None]
    head = aws.job(JOB)
    assert State.COMPLETED is head.state


def test_an_abandoned_attempt_stores_no_result_and_reports_nothing(aws: Cloud, launcher: Launcher):
    _, attempt = begin(aws, launcher, command=list(says(LARGE)))

    class Cut(ResultStore):
        def put(self, *_: object) -> Any:
            attempt.abandon()
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")

    store = Cut(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    attempt.parts = replace(attempt.parts, results=store)
    head = finish(aws, attempt)
    assert State.ACTIVE is head.state
    job = attempt.job
    assert job is not None
    assert not job.directory.path.exists()


# --- progress


def heartbeat(aws: Cloud, *progress: AttemptProgress, name: str = "agent-1") -> None:
    now_ms = int(time.time() * 1000)
    aws.agents.beat(Heartbeat(name, 0, now_ms, 1, 1, ("default",), "full", "1", progress=progress))


def test_progress_is_shown_from_the_holders_heartbeat_with_one_read(
    aws: Cloud, launcher: Launcher, api: Api, meter: Meter
):
    _, attempt = begin(aws, launcher, command=["true"])
    head, agent = attempt.head, attempt.head.agent
    assert agent is not None
    assert None is show_job(api)["progress"]
    reported = Progress(40.0, "page 2", 1_700_000_000_000, "copy", 2, 5)
    said = AttemptProgress(JOB, head.epoch, reported)
    heartbeat(aws, said, name=agent)
    meter.reset()
    progress = show_job(api)["progress"]
    counted = {"step": "copy", "current": 2, "total": 5}
    said_then = {"percent": 40.0, "message": "page 2", "at": "2023-11-14T22:13:20.000Z"}
    assert said_then | counted == progress
    assert 0 == meter.write_units
    heartbeat(aws, replace(said, epoch=head.epoch + 1), name=agent)  # of another attempt
    assert None is show_job(api)["progress"]


def test_what_a_job_uses_is_shown_from_the_holders_heartbeat_since_its_claim(
    aws: Cloud, launcher: Launcher, api: Api
):
    _, attempt = begin(aws, launcher, command=["true"])
    agent, claimed_ms = attempt.head.agent, attempt.head.timeline[-1].at_ms
    assert agent is not None
    row = Heartbeat(agent, 0, claimed_ms, 1, 1, ("default",), "full", "1", jobs=(JOB,))
    aws.agents.beat(row)
    assert None is show_job(api)["stats"]
    row = replace(row, stats={JOB: JobStats(0.93, 411)})
    aws.agents.beat(row)
    shown = {"cpus": 0.93, "memory_mb": 411, "at": rfc3339(claimed_ms)}
    assert shown == show_job(api)["stats"]
    aws.agents.beat(replace(row, beat_ms=claimed_ms - 1))  # of an attempt before
    assert None is show_job(api)["stats"]


def test_a_job_that_does_not_run_costs_no_read_of_an_agent(
    aws: Cloud, launcher: Launcher, api: Api, meter: Meter
):
    run(aws, launcher, "true")
    meter.reset()
    assert None is show_job(api)["progress"]
    assert {"dynamodb.GetItem": 1} == meter.calls


def test_a_running_attempt_has_progress_and_an_ended_one_has_none(aws: Cloud, launcher: Launcher):
    report = """echo '{"progress": {"percent": 7}}' >&3; read a <&3; echo ready; exec sleep 60"""
    _, attempt = begin(aws, launcher, grace_s=0.5, command=["/bin/sh", "-c", report])
    seen = []

    async def watched() -> None:
        running = asyncio.create_task(attempt.run())
        await wait_for_output(aws, attempt.head)
        while attempt.progress is None:
            await asyncio.sleep(0.01)
        seen.append(attempt.progress.percent)
        assert attempt.job is not None
        attempt.job.shim.kill()
        await running

    asyncio.run(watched())
    assert ([7.0], None) == (seen, attempt.progress)


def test_the_progress_of_many_jobs_is_bounded_and_the_latest_stays():
    entries = [
        AttemptProgress(f"{number:026}", 1, Progress(1.0, "é" * 200, number))
        for number in range(200)
    ]
    kept = bound_progress(entries)
    assert 0 < len(kept) < 200
    assert sum(len(entry.encode().encode()) for entry in kept) <= PROGRESS_BYTES
    assert [199, 198] == [entry.progress.at_ms for entry in kept[:2]]
    assert kept[0] == AttemptProgress.decode(kept[0].encode())


def test_a_heartbeat_without_progress_has_no_attribute_for_it(aws: Cloud):
    heartbeat(aws)
    row = aws.agents.get("agent-1")
    assert row is not None
    assert () == row.progress
