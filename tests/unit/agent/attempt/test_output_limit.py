"""Output over all attempts of a job is limited: each attempt knows what those before it stored."""

import asyncio
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ec2_agent.jobs.output_cap import MB, output_cap
from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.record import OutcomeRecord, decide
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, Usage
from ec2_agent.shim.log import CAP_BYTES, MAX_RECORD, Reader, Writer
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.deployment.limits import LimitOverrides, Limits
from joblane.job.head import Head, make_head
from joblane.job.judge import AttemptResult
from joblane.job.moves import AttemptFacts, apply, plan
from joblane.job.output import Cursor
from joblane.service.output.pages import log_page
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.retention import Retention
from joblane.state.timeline import Step
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission

DELIVERY = Delivery("q", "lane", "dead", Received("{}", "r", 1, 2), 3.0)


def test_the_cap_of_an_attempt_is_the_smaller_of_its_own_and_what_the_job_has_left():
    assert CAP_BYTES == output_cap(0, 200).cap
    assert CAP_BYTES == output_cap(200 * MB - CAP_BYTES, 200).cap
    assert 1 == output_cap(200 * MB - 1, 200).cap
    assert 0 == output_cap(200 * MB, 200).cap
    assert 0 == output_cap(300 * MB, 200).cap  # the last record went beyond, or the limit was cut
    assert "output_mb_per_job" in output_cap(200 * MB, 200).mark
    assert "50 MB" in output_cap(0, 200).mark


def test_a_log_without_room_has_the_mark_alone_and_none_if_the_job_is_silent(tmp_path: Path):
    path = tmp_path / "log"
    writer = Writer(os.open(path, os.O_WRONLY | os.O_CREAT), 0, "no room")
    reader = Reader(os.open(path, os.O_RDONLY))
    assert not reader.unread
    for _ in range(3):
        writer.write("stdout", b"x" * MAX_RECORD, 1)
    assert (1, "joblane", 1, b"[no room]\n") == reader.read()
    assert not reader.unread
    assert (0, 1) == (writer.output, writer.seq)
    reader.close()


def end_attempt(aws: Cloud, head: Head, state: State, output_bytes: int) -> Head:
    step = Step(state, 2000, head.attempt, "ended")
    return aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, output_bytes=output_bytes))


def test_what_attempts_stored_adds_up_in_the_write_that_ends_each(aws: Cloud):
    aws.jobs.put_new(make_head(JOB, "acme", submission(), 1000))
    head = aws.jobs.claim(named(JOB), "agent-1", 1000)
    assert 0 == head.output_bytes
    end_attempt(aws, head, State.RETRY, 30)
    head = aws.jobs.claim(named(JOB), "agent-1", 3000)
    assert 30 == head.output_bytes
    step = Step(State.BLOCKED, 4000, 1, "exit code 75")
    aws.jobs.block(head, step, "app:x", AttemptFacts(Outcome.BLOCKED, output_bytes=12))
    aws.jobs.unblock(JOB, "app:x", Step(State.PENDING, 5000, 1, "holds again"))
    head = aws.jobs.claim(named(JOB), "agent-1", 6000)
    assert 42 == head.output_bytes
    dead = end_attempt(aws, head, State.DEAD, 0)
    assert 42 == dead.output_bytes == aws.jobs.get(JOB).output_bytes  # type: ignore[union-attr]


@pytest.mark.parametrize("event", [Event.RETRY, Event.REPLAY])
def test_a_retry_by_hand_gives_a_job_no_new_room(event: Event):
    """Otherwise a tenant that may retry its jobs has no limit."""
    head = replace(make_head(JOB, "acme", submission(), 1000), state=State.DEAD, output_bytes=7)
    assert 7 == apply(head, event, plan(head, event, 2000, "again")).output_bytes


def test_an_outcome_in_the_journal_keeps_the_count():
    head = replace(make_head(JOB, "acme", submission(), 1000), attempt=1, output_bytes=5)
    usage = Usage(cpu_s=0.1, wall_s=0.1)
    ending = Ending(
        exit_code=1,
        signal=None,
        timed_out=False,
        oom_killed=False,
        stopped=False,
        error=None,
        usage=usage,
        output_bytes=9,
    )
    result = AttemptResult(Outcome.FAILED, "exit code 1", 2000, ending=ending)
    record = decide(head, DELIVERY, result, Retention(), random.Random(1))
    assert record == OutcomeRecord.decode(record.encode())
    assert 9 == record.transition.facts.output_bytes
    assert ending == Ending.decode(ending.encode())


def test_a_job_that_fails_again_and_again_stores_no_more_than_its_tenant_may(
    aws: Cloud, launcher: Launcher
):
    """1 MB over all attempts: the second is cut, and the third has only the mark."""
    script = "head -c 600000 /dev/zero | tr '\\0' x; exit 1"
    limits = Limits(tenants={"acme": LimitOverrides(output_mb_per_job=1)})
    head = make_head(
        JOB,
        "acme",
        submission(command=["/bin/sh", "-c", script], retry={"backoff_s": [0]}),
        int(time.time() * 1000),
    )
    aws.jobs.put_new(head)
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    lane.send(named(JOB))
    parts = Parts(aws.clients, launcher, limits=limits)
    stored = []
    for _ in range(3):
        run_attempt(parts)
        stored.append(stored_now(aws))
    assert 600_000 == stored[0]
    assert MB <= stored[1] < MB + MAX_RECORD
    assert stored[1] == stored[2]
    last = aws.job(JOB)
    assert State.DEAD is last.state
    read: list[tuple[str, str | None]] = []
    cursor = Cursor()
    while cursor != Cursor.past_end(last):
        page = log_page(aws.output, last, cursor, limit=1000, now_ms=int(time.time() * 1000))
        read += [(record.stream, record.text) for record in page.records]
        cursor = page.cursor if not page.complete else Cursor.past_end(last)
    assert stored[2] == sum(len(text or "") for stream, text in read if stream == "stdout")
    mark = "[output beyond 1 MB in all attempts of a job is dropped: output_mb_per_job]\n"
    assert [mark] * 2 == [text for stream, text in read if stream == "joblane"]


def stored_now(aws: Cloud) -> int:
    head = aws.job(JOB)
    return head.output_bytes


def run_attempt(parts: Parts) -> None:
    asyncio.run(parts.begin().run())
