"""An agent killed after every single AWS call that it makes between a message and its end.

The calls are not listed here: a hook counts them, so one that is added is visited as well. After
each kill another agent goes on with what SQS shows it, as it would after the dead one's lease.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ec2_agent.sandbox import Launcher, Sandbox, Spec
from joblane.aws.agents import LEASE_S, AgentRow
from joblane.aws.clients import Clients
from joblane.aws.lanes import LaneQueue
from joblane.aws.payloads import Payloads
from joblane.head import Head, submitted
from joblane.lifecycle import State
from joblane.message import Message
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud, new_session
from tests.support.jobs import JOB, submission


class Killed(BaseException):
    """SIGKILL, as far as the code that makes AWS calls can tell."""


class CountingLauncher(Launcher):
    """A real launcher that remembers how often a job was started."""

    starts = 0

    def start(self, spec: Spec, *, stdout: int, stderr: int, line: int | None = None) -> Sandbox:
        """Count, and start."""
        self.starts += 1
        return super().start(spec, stdout=stdout, stderr=stderr, line=line)


@pytest.fixture(name="launcher")
def _launcher() -> Iterator[CountingLauncher]:
    with CountingLauncher(isolation="namespaces", slots=0) as launcher:
        yield launcher


def mortal(point: int) -> Clients:
    """Clients of an agent that is dead once its n-th call has been answered."""
    session = new_session()
    answered = 0

    def die(**_: Any) -> None:
        nonlocal answered
        answered += 1
        if answered >= point:
            raise Killed

    session.get_component("event_emitter").register("after-call", die)
    return Clients(session)


def live(parts: Parts) -> None:
    """What an agent does with one message."""
    held = parts.receive()
    if held is None:
        return
    head = parts.claim(held)
    if head is not None:
        asyncio.run(parts.attempt(head, held).run())


def survivors(aws: Cloud, launcher: Launcher) -> Head | None:
    """Let another agent see the messages again, until none is left."""
    parts = Parts(aws.clients, launcher, name="agent-2", clock=lambda: time.time() + LEASE_S + 1)
    for _ in range(10):
        live(parts)
        head = aws.jobs.get(JOB)
        lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
        lengths = lane.lengths()
        if lengths.visible + lengths.in_flight == 0:
            return head
    raise AssertionError(f"the message does not come to an end: {head}")


def run_with_death_at(aws: Cloud, launcher: Launcher, point: int, spec: dict[str, Any]) -> bool:
    """One job under an agent that dies at `point`; returns whether it came to that."""
    now_ms = int(time.time() * 1000)
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    lane.send(Message(job_id=JOB, tenant="acme"))
    payloads = Payloads(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket)
    aws.jobs.put_new(payloads.keep(submitted(JOB, "acme", submission(**spec), now_ms)))
    aws.agents.beat(AgentRow("agent-1", 0, now_ms, 1, 0, ("default",), "full", "1"))
    try:
        live(Parts(mortal(point), launcher, name="agent-1"))
    except Killed:
        return True
    return False


def make_visible() -> None:
    """Let the visibility of what the dead agent held run out."""
    from moto.sqs.models import sqs_backends  # noqa: PLC0415 - only here time is set by hand

    for backend in sqs_backends["123456789012"].values():
        for queue in backend.queues.values():
            for message in queue._messages:  # noqa: SLF001 - there is no call for it
                message.change_visibility(0)


SPECS: dict[str, dict[str, Any]] = {
    "restartable": {"command": ["echo", "hi"]},
    "not restartable": {"command": ["echo", "hi"], "restartable": False},
    "large": {"command": ["echo", "x" * 1000]},
    "in S3": {"command": ["true", *["x" * 100_000] * 3]},
    "failing": {"command": ["false"], "retry": {"max_attempts": 2, "backoff_s": [0]}},
}


@pytest.mark.parametrize("name", SPECS)
def test_killed_after_any_call_no_job_is_lost_and_none_starts_twice_that_must_not(
    aws: Cloud, launcher: CountingLauncher, name: str
):
    visited = 0
    for point in range(1, 100):
        launcher.starts = 0
        died = run_with_death_at(aws, launcher, point, SPECS[name])
        if not died:
            break
        visited += 1
        make_visible()
        head = survivors(aws, launcher)
        assert head is not None
        assert head.ended, f"killed after call {point}: {head.state}"
        expected = {State.COMPLETED}
        if name == "failing":
            expected = {State.DEAD}
        elif name == "not restartable":
            expected = {State.COMPLETED, State.FAILED}
            assert launcher.starts <= 1, f"killed after call {point}"
        assert head.state in expected, f"killed after call {point}: {head.timeline[-1].reason}"
        aws.jobs.delete(JOB)
    print(f"crash points visited, {name}: {visited}")
    assert visited >= 4  # receive, claim, settle, delete at least
