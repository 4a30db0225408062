"""Direct calls with faults on the way: what botocore then repeats is done once, and nothing lost.

Each call goes to moto over a real connection, with botocore's own call to the same moto after it.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from botocore.exceptions import ClientError

from ec2_agent.aws_calls import direct
from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.aws_calls.queues import QueueCalls
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.aws.table import Table
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.answering import Asked, Part, Script, Server, answer, serving
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission
from tests.support.wire import FAULTS, Fate, Wire, calls_to

NOW_MS = 1_800_000_000_000
NOT_DONE = (Fate.NOT_MADE, Fate.FAILED, Fate.THROTTLED)
"""Fates in which AWS does nothing."""

LANE = DESCRIPTOR.lane_url("default", "default")

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Where no answer comes, none is waited for."""
    if str(Fate.LATE) in request.node.name:
        monkeypatch.setattr(direct, "TIMEOUT_S", 0.01)


@pytest.fixture(name="aws")
def _aws(moto: None) -> Cloud:
    """Moto, which reads requests and writes answers by itself."""
    from tests.support.moto_aws import moto_cloud  # it takes 2 s

    return moto_cloud([DESCRIPTOR.jobs_table], [LANE])


def put(aws: Cloud, job_id: str = JOB, **fields: object) -> Head:
    """Store a job that waits."""
    job = make_head(job_id, "acme", submission(**fields), NOW_MS - 1000)
    return aws.jobs.put_new(job)


def with_jobs(aws: Cloud, script: Script, work: Callable[[ClaimCalls, Server], Awaitable[T]]) -> T:
    """Work with calls to the jobs table, directly as a script lets them."""

    async def both() -> T:
        async with serving(script) as server:
            calls = calls_to("dynamodb", server.port)
            try:
                return await work(ClaimCalls(aws.jobs, calls), server)
            finally:
                calls.close()

    return asyncio.run(both())


def with_queue(aws: Cloud, script: Script, work: Callable[[QueueCalls], Awaitable[T]]) -> T:
    """Work with calls to a lane, directly as a script lets them."""

    async def both() -> T:
        async with serving(script) as server:
            calls = calls_to("sqs", server.port)
            try:
                return await work(QueueCalls(lane(aws), 0.001, calls))
            finally:
                calls.close()

    return asyncio.run(both())


def lane(aws: Cloud) -> LaneQueue:
    return LaneQueue(aws.clients.make("sqs"), LANE)


def jobs_wire(aws: Cloud, *fates: Fate) -> Wire:
    return Wire(aws.clients.make("dynamodb"), fates)


def queue_wire(aws: Cloud, *fates: Fate) -> Wire:
    return Wire(aws.clients.make("sqs"), fates)


# Claims.


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_a_claim_is_made_once(aws: Cloud, fate: Fate):
    put(aws)
    head = with_jobs(
        aws, jobs_wire(aws, fate), lambda jobs, _: jobs.claim(named(JOB), "agent-1", NOW_MS)
    )
    assert (State.ACTIVE, "agent-1", 1, 1) == (head.state, head.agent, head.epoch, head.attempt)
    assert aws.jobs.get(JOB) == head
    assert ["claimed"] == [step.reason for step in head.timeline if step.state is State.ACTIVE]


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_of_two_agents_one_claims(aws: Cloud, fate: Fate):
    """The other's refusal is one, however its own call went.

    agent-1 (direct)           table                    agent-2
    claim         --------->   active, "of agent-1"
    (the answer is lost)                     <--------- claim: refused
    claim (botocore) ------>   refused; the last line is its own: claimed
    """
    put(aws)
    wire, others = jobs_wire(aws, fate), list[Head]()

    def overtaken(asked: Asked) -> list[Part]:
        parts = wire(asked)
        with suppress(Refused):
            others.append(aws.jobs.claim(named(JOB), "agent-2", NOW_MS + 1))
        return parts

    own: list[Head] = []
    with suppress(Refused):
        own.append(
            with_jobs(aws, overtaken, lambda jobs, _: jobs.claim(named(JOB), "agent-1", NOW_MS))
        )
    (held,) = own + others
    assert aws.jobs.get(JOB) == held
    assert held.agent == ("agent-2" if fate in NOT_DONE else "agent-1")


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_a_job_with_a_long_submission_is_claimed_whole(
    aws: Cloud, fate: Fate, monkeypatch: pytest.MonkeyPatch
):
    """Its submission is read in a thread: the agent goes on meanwhile."""
    readers: list[threading.Thread] = []
    get = Table.get

    def noted(table: Table, *args: Any, **options: Any) -> Any:
        readers.append(threading.current_thread())
        return get(table, *args, **options)

    monkeypatch.setattr(Table, "get", noted)
    job = put(aws, env={"LONG": "x" * 20_000})
    head = with_jobs(
        aws, jobs_wire(aws, fate), lambda jobs, _: jobs.claim(named(JOB), "agent-1", NOW_MS)
    )
    assert job.spec == head.spec
    assert readers
    assert threading.main_thread() not in readers


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_a_job_that_is_not_there_is_refused(aws: Cloud, fate: Fate):
    with pytest.raises(Refused) as error:
        with_jobs(aws, jobs_wire(aws, fate), lambda jobs, _: jobs.claim(named(JOB), "a", NOW_MS))
    assert error.value.head is None


def test_a_table_that_refuses_everybody_has_botocores_error(aws: Cloud):
    aws.clients.make("dynamodb").delete_table(TableName=DESCRIPTOR.jobs_table)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        with_jobs(aws, jobs_wire(aws), lambda jobs, _: jobs.claim(named(JOB), "agent-1", NOW_MS))


# Ends of attempts.

FACTS = AttemptFacts(Outcome.SUCCEEDED, exit_code=0)


def ended(head: Head, state: State = State.COMPLETED) -> Step:
    return Step(state, NOW_MS + 5, head.attempt, "exit code 0")


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_an_attempt_ends_once(aws: Cloud, fate: Fate):
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", NOW_MS)
    with_jobs(aws, jobs_wire(aws, fate), lambda jobs, _: jobs.settle(head, ended(head), FACTS))
    after = aws.job(JOB)
    assert (State.COMPLETED, 0) == (after.state, after.exit_code)
    assert 1 == [step.state for step in after.timeline].count(State.COMPLETED)


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_an_agent_that_lost_its_job_is_refused(aws: Cloud, fate: Fate):
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", NOW_MS)
    taken = aws.jobs.take_over(head, "agent-2", NOW_MS + 60_000)
    with pytest.raises(Refused) as error:
        with_jobs(aws, jobs_wire(aws, fate), lambda jobs, _: jobs.settle(head, ended(head), FACTS))
    assert taken == error.value.head == aws.jobs.get(JOB)


# Messages.


def send(aws: Cloud, number: int = 1) -> None:
    lane(aws).send_batch([(named(JOB), 0)] * number)


def count_left(aws: Cloud) -> tuple[int, int]:
    """Messages that can be received, and those in flight."""
    lengths = lane(aws).lengths()
    return lengths.visible, lengths.in_flight


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_no_message_is_lost_or_received_twice_at_once(aws: Cloud, fate: Fate):
    """What an answer held that was lost is in flight: SQS gives it again after its time."""
    send(aws, 3)

    async def work(calls: QueueCalls) -> list[Received]:
        return [*await calls.receive(2, 0), *await calls.receive(2, 0), *await calls.receive(2, 0)]

    got = with_queue(aws, queue_wire(aws, fate), work)
    receipts = [received.receipt for received in got]
    assert len(set(receipts)) == len(receipts)
    visible, in_flight = count_left(aws)
    assert (0, 3) == (visible, in_flight)
    whole = fate is Fate.DONE or fate in NOT_DONE
    assert (3 if whole else 1) == len(receipts)


def test_a_received_message_is_what_botocore_receives(aws: Cloud):
    send(aws, 2)
    directly = with_queue(aws, queue_wire(aws), lambda calls: calls.receive(1, 0))
    (one,), (other,) = directly, lane(aws).receive(1, 0)
    assert (one.body, one.receives) == (other.body, 1)


def test_a_message_that_was_changed_on_its_way_is_not_taken(aws: Cloud):
    send(aws)
    wire = queue_wire(aws)

    def changed(asked: Asked) -> list[Part]:
        (whole,) = wire(asked)
        assert isinstance(whole, bytes)
        content = json.loads(whole.partition(b"\r\n\r\n")[2])
        content["Messages"][0]["Body"] += " "
        return [answer(content)]

    assert [] == with_queue(aws, changed, lambda calls: calls.receive(1, 0))
    assert (0, 1) == count_left(aws)


@pytest.mark.parametrize("fate", [Fate.DONE, *FAULTS])
def test_messages_are_deleted_whatever_happens(aws: Cloud, fate: Fate):
    send(aws, 3)
    receipts = [received.receipt for received in lane(aws).receive(3, 0)]

    async def work(calls: QueueCalls) -> None:
        await asyncio.gather(*map(calls.delete, receipts))

    with_queue(aws, queue_wire(aws, fate), work)
    assert (0, 0) == count_left(aws)


@pytest.mark.parametrize("fate", [Fate.DONE, Fate.NOT_MADE])
def test_only_the_message_that_sqs_refuses_to_delete_has_an_error(aws: Cloud, fate: Fate):
    send(aws, 2)
    one, other = (received.receipt for received in lane(aws).receive(2, 0))

    async def work(calls: QueueCalls) -> list[BaseException | None]:
        deletions = map(calls.delete, (one, "no receipt", other))
        return list(await asyncio.gather(*deletions, return_exceptions=True))

    before, error, after = with_queue(aws, queue_wire(aws, fate), work)
    assert (None, None) == (before, after)
    assert isinstance(error, ClientError)
    assert "ReceiptHandleIsInvalid" == error.response["Error"]["Code"]
    assert (0, 0) == count_left(aws)


# The requests are botocore's.


def capture(aws: Cloud) -> list[tuple[str, Any]]:
    """The requests that botocore makes from now on: targets and contents."""
    sent: list[tuple[str, Any]] = []

    def keep(request: Any, **_: Any) -> None:
        target = request.headers["X-Amz-Target"]
        text = target if isinstance(target, str) else target.decode()
        sent.append((text, json.loads(request.body)))

    aws.emitter().register_first("before-send", keep)
    return sent


def of(server: Server) -> list[tuple[str, Any]]:
    """The requests that came to a server."""
    return [(asked.headers["x-amz-target"], asked.json) for asked in server.came]


@pytest.mark.parametrize("env", [{}, {"LONG": "x" * 20_000}])
def test_requests_for_a_job_are_those_of_botocore(aws: Cloud, env: dict[str, str]):
    put(aws, env=env)
    sent = capture(aws)
    jobs = JobStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)

    async def both() -> list[tuple[str, Any]]:
        async with serving(lambda _: [answer({}, "500 Internal Server Error")]) as server:
            calls = calls_to("dynamodb", server.port)
            twice = ClaimCalls(jobs, calls)
            head = await twice.claim(named(JOB), "agent-1", NOW_MS)
            await twice.settle(head, ended(head), FACTS)
            calls.close()
            return of(server)

    directly = asyncio.run(both())
    assert 2 == len(directly)
    assert directly == [request for request in sent if request[0].endswith(".UpdateItem")]


def test_requests_to_a_queue_are_those_of_botocore(aws: Cloud):
    send(aws, 3)
    sent = capture(aws)
    queue = LaneQueue(aws.clients.make("sqs"), lane(aws).url)

    async def both() -> list[tuple[str, Any]]:
        async with serving(lambda _: [answer({}, "500 Internal Server Error")]) as server:
            calls = calls_to("sqs", server.port)
            twice = QueueCalls(queue, 0.001, calls)
            got = await twice.receive(3, 2)
            await asyncio.gather(*(twice.delete(received.receipt) for received in got))
            calls.close()
            return of(server)

    directly = asyncio.run(both())
    assert 2 == len(directly)
    assert directly == sent
