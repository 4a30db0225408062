"""Deadlines of running jobs: their agent stops them, by its own clock."""

import asyncio
import time

import pytest

from ec2_agent.attempt import deadline
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, Usage
from joblane.formats.times import rfc3339
from joblane.job.head import make_head
from joblane.job.judge import StopReason, judge
from joblane.state.lifecycle import Outcome, State
from joblane.testing.clock import Clock
from tests.support.attempts import begin, lengths, stop_running
from tests.support.aws import Cloud
from tests.support.jobs import JOB, submission

SLEEPER = "echo ready; exec sleep 60"


@pytest.mark.parametrize("told", [False, True])
def test_a_job_that_is_stopped_at_its_deadline_has_expired(
    aws: Cloud, launcher: Launcher, *, told: bool
):
    """By its agent without being told, or by a command of requeue, up to a minute later."""
    clock = Clock(time.time())
    soon = rfc3339(int(clock.now * 1000) + (60_000 if told else 200))
    _, attempt = begin(
        aws, launcher, clock=clock, command=["/bin/sh", "-c", SLEEPER], deadline=soon
    )

    def passed() -> None:
        if told:
            clock.now += 61
            attempt.request_stop(StopReason.COMMAND)
        else:
            clock.now += 1

    head = stop_running(aws, attempt, passed)
    assert (State.EXPIRED, Outcome.EXPIRED) == (head.state, head.outcome)
    assert f"its deadline {soon} passed" in head.timeline[-1].reason
    assert (0, 0) == lengths(aws)


def test_the_outcome_stays_expired_when_the_clock_is_set_back():
    head = make_head(JOB, "acme", submission(command=["true"], deadline=rfc3339(60_000)), 0)
    usage = Usage(cpu_s=0, wall_s=1)
    ending = Ending(
        None, 15, timed_out=False, oom_killed=False, stopped=True, error=None, usage=usage
    )
    result = judge(head, ending, StopReason.DEADLINE, 59_000)
    assert Outcome.EXPIRED is result.outcome


def test_a_deadline_is_waited_for_by_the_agents_clock():
    """In short sleeps: it may be set, and time passes while the machine is suspended."""
    clock, slept = Clock(1000.0), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds
        if len(slept) == 1:
            clock.now -= 3  # set back by AWS's time
        if len(slept) == 3:
            clock.now += 3600  # suspended

    asyncio.run(deadline.wait_until_passed(1_060_000, clock, sleep))
    assert [deadline.LOOK_S] * 3 == slept
    slept.clear()
    clock.now = 1000.0
    slept.extend([0.0] * 3)  # nothing happens to the clock
    asyncio.run(deadline.wait_until_passed(1_012_000, clock, sleep))
    assert [5.0, 5.0, 2.0] == slept[3:]
