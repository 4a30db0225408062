"""Jobs whose queue joblane.toml has no more: nothing fails on them, and all say what to do."""

import json
import time
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.requeue import handler as requeue
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.formats.times import rfc3339
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.keyed import Deployed
from tests.support.keys import put_keyed
from tests.support.lanes import make_lanes, unmake_lanes
from tests.support.recovery import in_memory
from tests.support.requests import Api

RUN = {"command": ["true"], "queue": "old"}

BEFORE = {"JOBLANE_QUEUES": '{"default": [], "old": []}', "JOBLANE_THREADS": '{"default": 8}'}
"""joblane.toml while it has the queue."""

GONE = "names old, which is gone: joblane.toml has it no more; name another queue, or none"


def api_of(aws: Cloud, module: Any, **settings: str) -> Api:
    environment = module.Settings.model_validate({**FUNCTION_ENVIRONMENT, **settings})
    return Api(module.build(environment, aws.clients, time.time))


@pytest.fixture(name="before")
def _before(aws: Cloud) -> Api:
    """The API while joblane.toml has the queue."""
    make_lanes(aws, "old")
    return api_of(aws, submission, **BEFORE)


def submit(api: Api, **fields: Any) -> str:
    code, job = api("POST", "/v1/jobs", {**RUN, **fields})
    assert 202 == code, job
    return str(job["id"])


def why(aws: Cloud, job_id: str) -> Any:
    code, found = api_of(aws, status)("GET", f"/v1/jobs/{job_id}/why")
    assert 200 == code, found
    return found


def ticked(aws: Cloud, at: float) -> dict[str, int]:
    environment = requeue.Settings.model_validate(FUNCTION_ENVIRONMENT)
    return dict(requeue.build(environment, aws.clients, lambda: at).run(lambda: 60.0))


def test_its_jobs_can_be_listed(aws: Cloud, before: Api):
    job_id = submit(before)
    unmake_lanes(aws, "old")
    code, page = api_of(aws, submission)("GET", "/v1/jobs", query={"queue": "old"})
    assert (200, [job_id]) == (code, [entry["id"] for entry in page["entries"]])
    gone = f"queue old is gone, joblane.toml has it no more: joblane why {job_id}"
    _, job = api_of(aws, submission)("GET", f"/v1/jobs/{job_id}")
    assert [gone, gone] == [page["entries"][0]["reason"], job["reason"]]


def test_why_says_that_it_is_gone_and_which_commands_help(aws: Cloud, before: Api):
    job_id = submit(before)
    unmake_lanes(aws, "old")
    reason = why(aws, job_id)["reasons"][0]
    assert ("queue_gone", {"queue": "old"}) == (reason["code"], reason["facts"])
    assert "queue old is gone, joblane.toml has it no more: no agent gets it" in reason["text"]
    assert f"joblane cancel {job_id}" in reason["commands"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"run_at": rfc3339(int(time.time() * 1000) + 3_600_000)}, "run_at"),
        ({"concurrency": "per-customer", "labels": {"customer": "1"}}, "key_held"),
    ],
)
def test_a_job_that_waits_for_something_else_says_both(
    aws: Cloud, before: Api, fields: dict[str, Any], code: str
):
    submit(before, **fields)
    job_id = submit(before, **fields)
    unmake_lanes(aws, "old")
    reasons = why(aws, job_id)["reasons"]
    assert code == reasons[0]["code"]
    assert "queue_gone" in [reason["code"] for reason in reasons]


def test_all_others_are_requeued_and_it_is_refused_with_what_to_do(aws: Cloud, before: Api):
    old, new = submit(before), submit(before, queue="default")
    unmake_lanes(aws, "old")
    code, answer = api_of(aws, admin)("POST", "/v1/queues/_all/requeue")
    assert (200, 2, 1) == (code, answer["examined"], answer["requeued"])
    problem = (
        f"queue old is gone: joblane.toml has it no more; joblane edit {old} --queue NAME or "
        f"joblane cancel {old}"
    )
    assert [{"id": old, "index": None, "detail": problem}] == answer["refused"]
    assert new != old


def test_requeue_moves_a_due_job_once_and_counts_it(aws: Cloud, before: Api):
    now = time.time()
    job_id = submit(before, run_at=rfc3339(int(now * 1000) + 3_600_000))
    unmake_lanes(aws, "old")
    assert {"QueueGone": 1} == ticked(aws, now + 3_601)
    assert State.PENDING is aws.job(job_id).state
    assert {} == ticked(aws, now + 3_700)


def test_the_next_job_of_its_key_gets_the_slot(at: Deployed):
    """The end of its holder is handled, and does not come again and again."""
    put_keyed(at.aws, active="A", queued="B")
    unmake_lanes(at.aws, "default")
    at.end("A")
    assert 1 == at.deliver()
    assert ({"B": 11}, State.PENDING) == (at.active(), at.head("B").state)


def test_its_condition_lets_its_job_go():
    world = in_memory()
    jobs = world.submit_and_block("http:https://api.example.com/health")
    unmake_lanes(world.aws, "default")
    world.recover()
    assert [State.PENDING] == world.states(jobs)
    assert [] == world.machine.running()


def test_its_dead_letter_is_handled(aws: Cloud, before: Api):
    """Of a running job, for which a new message is sent else; and of one that waits."""
    job_id = submit(before)
    body = wake_up_message(aws.job(job_id)).encode()
    aws.jobs.claim(wake_up_message(aws.job(job_id)), "agent-1", int(time.time() * 1000))
    unmake_lanes(aws, "old")
    arn = f"arn:aws:sqs:us-east-1:123456789012:{NAME}-dlq"
    record = {"messageId": "m-1", "body": body, "eventSourceARN": arn}
    environment = dead_letter.Settings.model_validate(FUNCTION_ENVIRONMENT)
    assert [] == dead_letter.build(environment, aws.clients, time.time).handle([record])
    assert State.ACTIVE is aws.job(job_id).state


def test_its_running_job_says_that_it_runs(aws: Cloud, before: Api):
    job_id = submit(before)
    aws.jobs.claim(wake_up_message(aws.job(job_id)), "agent-1", int(time.time() * 1000))
    unmake_lanes(aws, "old")
    assert "active" == why(aws, job_id)["state"]


def test_a_function_that_still_knows_it_refuses_the_job(aws: Cloud, before: Api):
    unmake_lanes(aws, "old")
    for fields in ({}, {"concurrency": "per-customer", "labels": {"customer": "1"}}):
        code, problem = before("POST", "/v1/jobs", {**RUN, **fields})
        assert (400, [{"field": "queue", "problem": GONE}]) == (code, problem["errors"])
    _, page = before("GET", "/v1/jobs")
    assert [] == page["entries"]


def test_each_job_of_a_batch_is_refused_by_itself_while_it_goes(aws: Cloud, before: Api):
    """Its lanes are deleted between the request's two kinds of messages."""
    unmake_lanes(aws, "old")
    keyed = {"concurrency": "per-customer", "labels": {"customer": "1"}}
    jobs = [RUN, {**RUN, "queue": "default"}, {**RUN, **keyed}]
    code, answer = before("POST", "/v1/jobs/batch", {"jobs": jobs})
    assert (200, [400, 202, 400]) == (code, [entry["status"] for entry in answer["entries"]])
    assert 2 == json.dumps(answer).count(GONE) // 2
    _, page = before("GET", "/v1/jobs")
    assert ["default"] == [entry["queue"] for entry in page["entries"]]


def test_a_failed_job_of_it_is_listed_and_restarted_by_nobody(aws: Cloud, before: Api):
    job_id = submit(before)
    head = aws.jobs.claim(wake_up_message(aws.job(job_id)), "agent-1", int(time.time() * 1000))
    step = Step(State.DEAD, int(time.time() * 1000), 1, "exit code 1")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=int(time.time()) + 9_999))
    unmake_lanes(aws, "old")
    code, answer = api_of(aws, admin)("POST", "/v1/queues/_all/restart-failed")
    assert 200 == code, answer
