"""A job whose limit this host cannot apply waits for another agent, and says so."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.lanes.lacking import LackingHost
from ec2_agent.messages import hiding
from ec2_agent.messages.delivery import Delivery
from ec2_agent.sandbox.launcher import Launcher
from joblane.job.head import Head
from joblane.job.lifecycle import State
from tests.support.agents import Parts
from tests.support.attempts import begin, lengths
from tests.support.aws import Cloud
from tests.support.jobs import JOB

LACKING = {"memory_mb": 64, "cpus": 0.5, "cores": "0", "io_bps": 1 << 20, "disk_mb": 16}
"""None of these can be applied by a launcher without cgroups and disks."""


def attempt(
    aws: Cloud, launcher: Launcher, assigned: str | None = None, **fields: Any
) -> tuple[Parts, Delivery, Head]:
    """Run one attempt; the job then."""
    parts, tried = begin(aws, launcher, command=["true"], **fields)
    if assigned is not None:
        tried.head = replace(tried.head, assigned=assigned)
    asyncio.run(tried.run())
    head = aws.job(JOB)
    return parts, tried.delivery, head


@pytest.mark.parametrize("limit", LACKING)
def test_a_limit_that_this_host_lacks_leaves_the_job_to_another_agent(
    aws: Cloud, launcher: Launcher, limit: str
):
    parts, delivery, head = attempt(aws, launcher, resources={limit: LACKING[limit]})
    assert (State.PENDING, 0) == (head.state, head.attempt)
    reason = head.timeline[-1].reason
    assert reason.startswith(f"agent agent-1: {limit} cannot be applied")
    assert reason.endswith("; waits for another agent")
    assert (1, 0) == lengths(aws)  # another agent may have it at once
    assert parts.lacking.knows(delivery)


def test_the_agent_that_claims_it_next_runs_it(aws: Cloud, launcher: Launcher):
    attempt(aws, launcher, resources={"disk_mb": 16})
    claimed = aws.jobs.claim(JOB, "agent-2", 2_000_000_000_000)
    assert (State.ACTIVE, 1) == (claimed.state, claimed.attempt)


def test_a_limit_that_is_invalid_everywhere_fails_the_job(aws: Cloud, launcher: Launcher):
    parts, delivery, head = attempt(aws, launcher, network="host")
    assert State.FAILED is head.state
    assert not parts.lacking.knows(delivery)


def test_the_only_agent_of_a_targeted_job_fails_it(aws: Cloud, launcher: Launcher):
    parts, delivery, head = attempt(aws, launcher, "agent-1", resources={"disk_mb": 16})
    assert State.FAILED is head.state
    assert "disk_mb cannot be applied" in head.timeline[-1].reason
    assert not parts.lacking.knows(delivery)


def test_its_message_is_given_back_without_a_claim_and_for_ever_longer(
    aws: Cloud, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
):
    parts, delivery, _ = attempt(aws, launcher, resources={"disk_mb": 16})
    hidden: list[float] = []

    async def give_back(_: Delivery, seconds: float) -> None:
        hidden.append(seconds)

    monkeypatch.setattr(parts.flight, "give_back", give_back)
    for receives in (1, 2, 10, 1000):
        again = replace(delivery, received=replace(delivery.received, receives=receives))
        assert parts.lacking.knows(again)
        asyncio.run(parts.lacking.pass_on(again))
    assert [30, 60, 300, hiding.LACKING.longest_s] == hidden


def test_other_jobs_are_not_affected(aws: Cloud, launcher: Launcher):
    parts, delivery, _ = attempt(aws, launcher, resources={"disk_mb": 16})
    fresh = LackingHost(parts.flight, time.monotonic)
    assert not fresh.knows(delivery)
    fresh.remember("another job")
    assert not fresh.knows(delivery)
