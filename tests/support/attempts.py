"""One attempt of a job, from its claim to its end, in a real sandbox over moto."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ec2_agent.attempt.run import Attempt
from ec2_agent.sandbox.launcher import Launcher
from joblane.aws.queue.lanes import LaneQueue
from joblane.job.fields import GRACE_S
from joblane.job.head import Head, make_head
from joblane.job.output import Cursor
from joblane.service.output.pages import log_page
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission


def begin(
    aws: Cloud,
    launcher: Launcher,
    clock: Callable[[], float] = time.time,
    grace_s: float = GRACE_S,
    **fields: Any,
) -> tuple[Parts, Attempt]:
    """Submit and claim a job."""
    head = make_head(JOB, "acme", submission(**fields), int(clock() * 1000))
    LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default")).send(named(JOB))
    aws.jobs.put_new(head)
    parts = Parts(aws.clients, launcher, clock=clock, grace_s=grace_s)
    return parts, parts.begin()


async def wait_for_output(aws: Cloud, head: Head) -> None:
    """Return once the job has written something: its command runs."""
    while not output(aws, head):
        await asyncio.sleep(0.01)


def run(aws: Cloud, launcher: Launcher, *command: str, **fields: Any) -> Head:
    """Run one attempt to its end; returns the job then."""
    _, attempt = begin(aws, launcher, command=list(command), **fields)
    return finish(aws, attempt)


def finish(aws: Cloud, attempt: Attempt) -> Head:
    """Run an attempt to its end; returns the job then."""
    asyncio.run(attempt.run())
    return aws.job(JOB)


def stop_running(aws: Cloud, attempt: Attempt, stop: Callable[[], None]) -> Head:
    """Run an attempt, and `stop` it once its command runs; returns the job then."""

    async def scenario() -> None:
        running = asyncio.create_task(attempt.run())
        await wait_for_output(aws, attempt.head)
        stop()
        await running

    asyncio.run(scenario())
    return aws.job(JOB)


def output(aws: Cloud, head: Head) -> list[tuple[str, str | None]]:
    """The job's output: each record's stream and text."""
    page = log_page(aws.output, head, Cursor(), limit=1000, now_ms=int(time.time() * 1000))
    return [(record.stream, record.text) for record in page.records]


def lengths(aws: Cloud) -> tuple[int, int]:
    """How many messages of the default lane are visible, and how many in flight."""
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    return lane.lengths().visible, lane.lengths().in_flight
