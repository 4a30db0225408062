"""`joblane.testing`: the rules of jobs as time passes, by the real code."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from joblane import Job, JobFailedError, PermanentError, WaitTimeoutError, job_type
from joblane.client.errors import NotFoundError
from joblane.testing import End, FakeDeployment, StillRunningError
from tests.support.scenario_types import count
from tests.support.scenarios import SCENARIOS, has_a_result, how_it_ends

if TYPE_CHECKING:
    from joblane.client.fields import Concurrency

BLOCKED: set[str] = set()
"""Jobs that were blocked before: an attempt that waits for a condition is not counted."""


START = datetime(2026, 1, 1, tzinfo=UTC)


class Work(BaseModel):
    """Of `work`."""

    do: str = ""


@job_type("work", retry={"max_attempts": 3, "backoff_s": [60, 600]})
def work(params: Work, job: Job) -> str:
    """Do as the params say."""
    match params.do:
        case "fail":
            raise ValueError("not today")
        case "never":
            raise PermanentError("never")
        case "block" if job.id not in BLOCKED:
            BLOCKED.add(job.id)
            job.block("app:ledger")
        case "large":
            return "x" * 5000
    return f"attempt {job.attempt} of {job.context.type}"


@pytest.fixture(name="deployment")
def _deployment() -> FakeDeployment:
    return FakeDeployment([work], commands=how_it_ends)


def test_a_scenario_is_repeated_exactly():
    seen = []
    for _ in range(2):
        deployment = FakeDeployment([count], commands=how_it_ends, start=START)
        client = deployment.client()
        seen.append([scenario(client) for scenario in (*SCENARIOS, has_a_result)])
        seen[-1].append([(job.id, job.state) for job in deployment.submitted()])

    assert seen[0] == seen[1]


def test_retries_wait_for_their_backoff(deployment: FakeDeployment):
    began = deployment.now
    job = deployment.client().submit(work, Work(do="fail"))

    with pytest.raises(JobFailedError, match=r"ValueError: not today \(attempt 3 of 3\)"):
        job.wait()

    states = ["pending", *["active", "retry"] * 2, "active", "dead"]
    assert states == [step.state for step in job.data.timeline]
    assert timedelta(0) < deployment.now - began < timedelta(seconds=700)


def test_a_permanent_error_is_not_tried_again(deployment: FakeDeployment):
    job = deployment.client().submit(work, Work(do="never"))

    with pytest.raises(JobFailedError, match="never"):
        job.wait()

    assert ("failed", 1) == (job.state, job.data.attempt)


def test_a_large_result_comes_back(deployment: FakeDeployment):
    assert "x" * 5000 == deployment.client().submit(work, Work(do="large")).wait()


def test_a_condition_is_waited_for(deployment: FakeDeployment):
    client = deployment.client()
    deployment.hold("tcp:db.example.com:5432")
    held = client.submit(["sh", "-c", "exit 0"], requires=["tcp:db.example.com:5432"])
    blocked = client.submit(work, Work(do="block"))

    deployment.run()
    assert ["blocked", "blocked"] == [held.refresh().state, blocked.refresh().state]
    assert "attempt 1 of work" == blocked.wait()
    assert "blocked" == held.refresh().state
    deployment.release("tcp:db.example.com:5432")
    assert "completed" == held.wait().state


def test_a_deadline_expires_what_waits_and_stops_what_runs(deployment: FakeDeployment):
    client, deadline = deployment.client(), deployment.now + timedelta(hours=1)
    waits = client.submit(
        ["sh", "-c", "exit 0"], run_at=deployment.now + timedelta(minutes=59), deadline=deadline
    )
    runs = client.submit(["sleep", "9999"], deadline=deadline, timeout_s=9000)
    late = client.submit(["sleep", "9999"], deadline=deadline, concurrency={"key": ["a"]})
    queued = client.submit(
        ["sleep", "1"], deadline=deadline, concurrency={"key": ["a"], "max_queued": 1}
    )

    deployment.advance(timedelta(minutes=62))

    states = [each.refresh().state for each in (waits, runs, late, queued)]
    assert ["completed", "expired", "dead", "expired"] == states


def test_a_key_lets_one_job_run_at_a_time(deployment: FakeDeployment):
    client = deployment.client()
    key: Concurrency = {"key": ["customer", 7], "max_queued": 1}
    first = client.submit(["sleep", "9"], concurrency=key)
    second = client.submit(["sleep", "9"], concurrency=key)
    deployment.run()
    assert ["active", "waiting"] == [first.refresh().state, second.refresh().state]

    deployment.end(first)

    assert ["completed", "active"] == [first.refresh().state, second.refresh().state]


def test_a_running_job_is_cancelled_and_a_lost_one_starts_again(deployment: FakeDeployment):
    client = deployment.client()
    cancelled, lost = client.submit(["sleep", "9"]), client.submit(["sleep", "9"])
    deployment.run()
    client.cancel(cancelled.id)
    deployment.end(lost, End(lost=True))

    assert "cancelled" == cancelled.wait().state
    assert ("active", 2) == (lost.refresh().state, lost.data.attempt)


def test_jobs_go_to_every_agent():
    deployment = FakeDeployment(agents=3, commands=how_it_ends)
    group = deployment.client().submit(["sh", "-c", "exit 0"], target="_all")

    assert "completed" == group.wait().state
    assert 4 == len(deployment.submitted())


def test_a_paused_queue_starts_nothing(deployment: FakeDeployment):
    client = deployment.client()
    deployment.client("platform").set_queue("default", {"run_jobs": False})
    job = client.submit(["sh", "-c", "exit 0"])
    deployment.run()
    assert "pending" == job.refresh().state

    deployment.client("platform").set_queue("default", {"run_jobs": True})

    assert "completed" == job.wait().state


def test_a_command_that_nobody_ends_is_named(deployment: FakeDeployment):
    job = deployment.client().submit(["sleep", "9"])

    with pytest.raises(WaitTimeoutError):
        job.wait(timeout_s=30)
    with pytest.raises(StillRunningError, match=f"{job.id} sleep 9"):
        job.wait()


def test_a_wait_without_an_agent_ends(deployment: FakeDeployment):
    deployment = FakeDeployment(agents=0)
    job = deployment.client().submit(["make"])

    with pytest.raises(StillRunningError, match="nothing falls due"):
        job.wait()


def test_a_month_passes_in_few_pauses(deployment: FakeDeployment):
    began, month = deployment.now, timedelta(days=30)
    job = deployment.client().submit(["sh", "-c", "exit 0"], run_at=began + month)

    assert "completed" == job.wait().state
    assert month <= deployment.now - began < month + timedelta(hours=1)
    later = deployment.client().submit(["sh", "-c", "exit 0"], run_at=deployment.now + month)
    began = deployment.now
    with pytest.raises(WaitTimeoutError):
        later.wait(timeout_s=3600)
    assert deployment.now - began < timedelta(hours=1.2)


def test_tenants_are_apart():
    deployment = FakeDeployment(tenants=("acme", "other"))
    job = deployment.client("acme").submit(["make"])

    with pytest.raises(NotFoundError):
        deployment.client("other").get(job.id)
    with pytest.raises(ValueError, match="there is no tenant nobody; there are acme, other"):
        deployment.client("nobody")
    assert [job.id] == [each.id for each in deployment.submitted(tenant="acme")]


def test_a_job_that_does_not_run_cannot_be_ended(deployment: FakeDeployment):
    job = deployment.client().submit(["sh", "-c", "exit 0"])
    job.wait()

    with pytest.raises(ValueError, match=f"job {job.id} does not run: it is completed"):
        deployment.end(job)
    with pytest.raises(ValueError, match="there is no such job"):
        deployment.end("01AN4Z07BY79KA1307SR9X4MV3")


def test_an_asyncio_client_waits_in_the_same_time(deployment: FakeDeployment):
    async def main() -> str:
        async with deployment.async_client() as client:
            job = await client.submit(work, Work())
            return await job.wait()

    assert "attempt 1 of work" == asyncio.run(main())
