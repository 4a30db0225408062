"""An agent killed after calls that it makes between a message and its end.

Calls to AWS and writes to the journal are not listed here: hooks tell of them, so one that is added
is visited as well (tests/support/crash_points.py says which are). After each kill either the
instance is gone, its journal with it, and another agent goes on with what SQS shows it, as it would
after the dead one's lease; or the agent comes back under its name and finds its journal.
"""

import asyncio
import gzip
import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ec2_agent.outcomes.journal import KIND
from ec2_agent.outcomes.record import OutcomeRecord
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from ec2_agent.state.backend import Backend
from ec2_agent.state.memory import MemoryBackend
from ec2_agent.state.records import BATCH, StateRecord, Verb, WriteResult
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import file_key, manifest_key, output_key
from joblane.files.models import Manifest
from joblane.job.head import Head, make_head
from joblane.job.output import Cursor
from joblane.service.output.pages import SETTLE_MS, log_page
from joblane.state.lease import LEASE_S, Heartbeat
from joblane.state.lifecycle import State
from tests.support.agents import DirectStore, Parts
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.crash_points import NEVER, Call, Killed, Process
from tests.support.depth import DEEP
from tests.support.jobs import JOB, named, submission
from tests.support.memory import Memory


class CountingLauncher(Launcher):
    """A real launcher that remembers how often a job was started."""

    starts = 0

    def start(self, spec: Spec, **options: Any) -> Sandbox:
        """Count, and start."""
        self.starts += 1
        return super().start(spec, **options)


@pytest.fixture(name="memory")
def _memory() -> Memory:
    return Memory(time.time)


@pytest.fixture(name="launcher")
def _launcher() -> Iterator[CountingLauncher]:
    with CountingLauncher(isolation="namespaces", slots=0) as launcher:
        yield launcher


class Mortal(Process):
    """An agent that dies once its n-th call has been answered, and makes none any more.

    Output is shipped beside the job: what raises there does not reach the attempt, so the attempt
    dies at its next call, before it is made.
    """

    def store(self, backend: Backend) -> DirectStore:
        """A journal whose writes are calls too."""
        process = self

        class Counted(DirectStore):
            def write(self, verb: Verb, records: Sequence[StateRecord]) -> list[WriteResult]:
                process.calling()
                results = super().write(verb, records)
                process.answered(Call(f"journal {verb}"))
                return results

        return Counted(backend)


PRINTED: dict[str, list[str | None]] = {
    "restartable": ["hi\n"],
    "not restartable": ["hi\n"],
    "large": ["x" * 1000 + "\n"],
    "in S3": [],
    "failing": [],
    "result in S3": [],
    "files": [],
}


def read_printed(aws: Cloud, head: Head) -> list[tuple[int, int, str | None]]:
    """A job's output: attempt, number and text of each record; a dead agent's may be missing."""
    # The clock of the agent that survives is a lease and a second ahead: more than that is over.
    now_ms = int(time.time() * 1000) + SETTLE_MS + 1000 * (LEASE_S + 2)
    page = log_page(aws.output, head, Cursor(), limit=1000, now_ms=now_ms)
    assert page.complete
    return [(record.attempt, record.seq, record.text) for record in page.records]


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


def submit(aws: Cloud, spec: dict[str, Any]) -> None:
    """Submit the job, and let agent-1 be alive."""
    now_ms = int(time.time() * 1000)
    lane = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
    lane.send(named(JOB))
    s3 = aws.clients.make("s3")
    payloads = PayloadStore(
        lambda: s3,
        DESCRIPTOR.bucket,
        ArrayValues(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table),
    )
    for data in (b"data", b"standard input"):
        key = file_key("acme", hashlib.sha256(data).hexdigest())
        s3.put_object(Bucket=DESCRIPTOR.bucket, Key=key, Body=data)
    aws.jobs.put_new(payloads.keep(make_head(JOB, "acme", submission(**spec), now_ms)))
    aws.agents.beat(Heartbeat("agent-1", 0, now_ms, 1, 0, ("default",), "full", "1"))


def one_life(launcher: Launcher, agent: Mortal, point: int, backend: Backend) -> bool:
    """Let agent-1 take up its journal and a message; returns whether it died at `point`."""
    agent.starts(point)
    parts = Parts(agent.clients, launcher, name="agent-1", store=agent.store(backend))
    try:
        parts.take_up()
        live(parts)
    except Killed:
        return True
    return False


def check_files(aws: Cloud, head: Head) -> None:
    """The files of the attempt that the job names are there, all of them."""
    assert head.output_files is not None
    assert (head.epoch, 2, 8) == (
        head.output_files.epoch,
        head.output_files.count,
        head.output_files.bytes,
    )

    def read(key: str) -> bytes:
        s3 = aws.clients.make("s3")
        return s3.get_object(Bucket=DESCRIPTOR.bucket, Key=key)["Body"].read()

    listed = gzip.decompress(read(manifest_key("acme", JOB, head.epoch)))
    paths = [file.path for file in Manifest.model_validate_json(listed).files]
    assert ["out", "out2"] == paths
    assert {b"data"} == {read(output_key("acme", JOB, head.epoch, path)) for path in paths}


def make_visible(memory: Memory) -> None:
    """Let the visibility of what the dead agent held run out."""
    for entries in memory.queues.entries.values():
        for entry in entries.values():
            entry.visible_at = 0


RESULT = "r" * 3000

SPECS: dict[str, dict[str, Any]] = {
    "restartable": {"command": ["echo", "hi"]},
    "not restartable": {"command": ["echo", "hi"], "restartable": False},
    "large": {"command": ["echo", "x" * 1000]},
    "in S3": {"command": ["true", *["x" * 100_000] * 3]},
    "failing": {"command": ["false"], "retry": {"max_attempts": 2, "backoff_s": [0]}},
    "result in S3": {"command": ["sh", "-c", f"""echo '{{"result": "{RESULT}"}}' >&3"""]},
    "files": {
        "command": ["sh", "-c", "cp in out; cp in out2"],
        "inputs": [{"path": "in", "sha256": hashlib.sha256(b"data").hexdigest()}],
        "stdin_file": hashlib.sha256(b"standard input").hexdigest(),
        "outputs": ["out*"],
    },
}


def check(aws: Cloud, launcher: CountingLauncher, name: str, point: int) -> None:
    """The job has ended as it should, with its output, result and files, however often it ran."""
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
    read = read_printed(aws, head)
    assert len(read) == len(set(read)), f"killed after call {point}: read twice"
    if head.state is State.COMPLETED:
        last = [text for attempt, _, text in read if attempt == head.attempt]
        assert PRINTED[name] == last, f"killed after call {point}"
    if name == "result in S3":
        read_result = ResultStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket).read
        assert f'"{RESULT}"'.encode() == read_result(head), f"killed after call {point}"
    if name == "files":
        check_files(aws, head)


@pytest.mark.parametrize("name", SPECS)
def test_killed_after_any_call_no_job_is_lost_and_none_starts_twice_that_must_not(
    memory: Memory, launcher: CountingLauncher, name: str
):
    aws, agent = memory.cloud(), Mortal(memory)

    def killed_at(point: int) -> bool:
        memory.reset()
        launcher.starts = 0
        submit(aws, SPECS[name])
        died = one_life(launcher, agent, point, MemoryBackend())
        make_visible(memory)
        check(aws, launcher, name, point)
        return died

    # receive, claim, store, settle, delete, remove at least
    calls = agent.visit(killed_at, least=6)
    ships = any(DESCRIPTOR.output_table in call.kind for call in calls)
    assert bool(PRINTED[name]) is ships


def outcome_in(backend: Backend) -> OutcomeRecord | None:
    """What the journal holds."""
    records, _ = backend.list(KIND, None, BATCH, time.time())
    assert len(records) <= 1
    return OutcomeRecord.decode(records[0].body or "") if records else None


@pytest.mark.parametrize(
    "name", ["restartable", "not restartable", "failing", "result in S3", "files"]
)
def test_an_agent_that_comes_back_delivers_what_it_had_stored_and_runs_nothing_again(
    memory: Memory, launcher: CountingLauncher, name: str
):
    """Killed at any call, and once more at any call of the life that takes up the journal."""
    aws, agent = memory.cloud(), Mortal(memory)
    took_up: list[int] = []

    def killed_at(point: int, again: int = NEVER) -> bool:
        memory.reset()
        backend = MemoryBackend()
        launcher.starts = 0
        submit(aws, SPECS[name])
        died = one_life(launcher, agent, point, backend)
        stored, starts, calls = outcome_in(backend), launcher.starts, agent.calls
        died_again = stored is not None and one_life(launcher, agent, again, backend)
        third = Parts(aws.clients, launcher, name="agent-1", store=DirectStore(backend))
        third.take_up()
        make_visible(memory)
        head = survivors(aws, launcher)
        where = f"killed after call {point}, then {again}: {head}"
        assert head is not None, where
        assert head.ended, where
        assert outcome_in(backend) is None, where
        if stored is not None:
            # The attempt that had ended was not made again: its line stands, once.
            line = stored.transition.step.encode()
            assert 1 == [step.encode() for step in head.timeline].count(line), where
            more = 1 if name == "failing" and stored.transition.step.state is State.RETRY else 0
            assert starts + more == launcher.starts, where
            if again == NEVER:
                took_up.append(point)
        agent.calls = calls
        return died_again if again < NEVER else died

    agent.visit(killed_at)
    print(f"points after which a journal was taken up, {name}: {took_up}")
    assert len(took_up) >= 3 * (name != "failing")  # stored, settled, let go of
    # By default what takes up the whole of it: the later the first death, the less is left to do.
    for point in took_up if DEEP else took_up[:1]:
        again = 1
        while again < 5 and killed_at(point, again):
            again += 1
