"""Each record of output is read once, whatever is killed at any moment."""

import asyncio
import io
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.attempt import shipping
from ec2_agent.attempt.shipping import OutputShipper
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.running import RunningJob
from ec2_agent.shim import files
from ec2_agent.shim.log import Writer
from joblane.aws.job.output_store import OutputStore
from joblane.job.output import OutputRecord, Stream
from tests.support.aws import DESCRIPTOR, OneEach
from tests.support.crash_points import Killed
from tests.support.memory import Memory, operation_of
from tests.support.shipping import OURS, STREAM, Shim, directly, folder


@pytest.fixture(name="_direct", autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "in_thread", directly)


@dataclass
class Follower:
    """A reader with a cursor: each record must come once and in order."""

    store: OutputStore
    limit: int
    room: int
    seq: int = 0
    at: int = 1

    def read(self, records: list[OutputRecord]) -> bool:
        """Read once; returns whether there may be more."""
        read = self.store.read(STREAM, self.seq, self.at, self.limit, self.room)
        for entry in read.entries:
            assert records[self.seq] == entry.record
            self.seq = entry.record.seq
            # Whoever was cut off goes on from here.
            self.at = entry.at
        self.at = read.at
        return read.more


@dataclass
class Host:
    """One job's log, the processes of an agent that ship it in turn, and the job's readers.

    A process is killed at its n-th moment: before and after each call, and before and after each
    note. A call that it made and that AWS had not answered arrives later, or never.
    """

    path: Path
    followers: list[Follower] = field(default_factory=list)
    records: list[OutputRecord] = field(default_factory=list)
    late: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    late_at: int | None = None
    """After how many moments from now the late call arrives."""
    moments: int = 0
    kill_at: int | None = None
    notes: bool = True
    """Whether notes can be written: not while the disk is full."""

    def __post_init__(self) -> None:
        self.aws = aws_in_memory()
        self.aws.memory.reset()
        self.aws.host = self
        self._fd = os.open(self.path / files.LOG, os.O_WRONLY | os.O_CREAT, 0o600)
        self._writer = Writer(self._fd)

    def close(self) -> None:
        """Close the log."""
        os.close(self._fd)

    def follower(self, limit: int = 1000, room: int = 1 << 20) -> None:
        """Let another reader begin."""
        self.followers.append(Follower(self.aws.readers, limit, room))

    def write(self, *sizes: int) -> None:
        """Let the job write records of these sizes."""
        for size in sizes:
            rng = random.Random(len(self.records))
            stream: Stream = rng.choice(("stdout", "stderr"))
            record = OutputRecord(
                len(self.records) + 1, stream, 1000 + len(self.records), rng.randbytes(size)
            )
            self._writer.write(stream, record.data, record.time_ms)
            self.records.append(record)

    def live(self, kill_at: int | None = None) -> bool:
        """Ship all that is there; returns whether this process was killed before it had."""
        self.kill_at, self.moments = kill_at, 0

        async def ship() -> bool:
            directory = _Noting(self.path, self)
            shim = cast("Any", Shim.__new__(Shim))
            shim.grown = asyncio.Event()
            shipper = OutputShipper(RunningJob(directory, shim), self.aws.agents, STREAM, OURS)
            arrived = asyncio.Event()
            shipper.then(arrived.set)
            assert await shipper.finish(None)
            await asyncio.sleep(0)
            directory.close()
            return not arrived.is_set()

        return asyncio.run(ship())

    def moment(self, call: tuple[str, str, dict[str, Any]] | None = None) -> None:
        """Let readers read and a late call arrive; the process may die now.

        `call` is about to be made: when the process dies, it is on its way.
        """
        self.moments += 1
        if self.late_at is not None:
            self.late_at -= 1
            if self.late_at <= 0:
                self.deliver()
        for follower in self.followers:
            follower.read(self.records)
        if self.moments == self.kill_at:
            if call is not None:
                self.late.append(call)
            raise Killed

    def deliver(self) -> None:
        """Let late calls arrive."""
        self.late_at = None
        while self.late:
            service, operation, parameters = self.late.pop(0)
            with suppress(ClientError):  # refused: a chunk is stored there
                self.aws.memory.call(service, operation, parameters)

    def check(self) -> None:
        """Let a process ship the rest; every reader must have every record, once and in order."""
        assert not self.live()
        self.deliver()
        self.follower(limit=3)
        for follower in self.followers:
            while follower.read(self.records):
                pass
            assert follower.seq == len(self.records)
            assert not follower.read(self.records)


class AwsInMemory:
    """What the processes and readers of all tests call: clients take longer to make than a test."""

    host: Host

    def __init__(self) -> None:
        self.memory = Memory(time.time)
        session = self.memory.session()
        emitter = session.get_component("event_emitter")
        emitter.register("before-call", self._before)
        emitter.register("after-call", self._after)
        self.agents = output_store(OneEach(session))
        """The calls of this one are moments."""
        self.readers = output_store(OneEach(self.memory.session()))

    def _before(self, model: Any, context: Any, **_: Any) -> None:
        service, operation = operation_of(model)
        parameters = dict(context["parameters"])
        if operation == "put_object":
            body = parameters["Body"].read()
            context["parameters"]["Body"].seek(0)
            parameters["Body"] = io.BytesIO(body)
        self.host.moment((service, operation, parameters))

    def _after(self, **_: Any) -> None:
        self.host.moment()


@cache
def aws_in_memory() -> AwsInMemory:
    return AwsInMemory()


def output_store(clients: OneEach) -> OutputStore:
    return OutputStore(
        clients.make("dynamodb"),
        DESCRIPTOR.output_table,
        lambda: clients.make("s3"),
        DESCRIPTOR.bucket,
        days=3653,  # from 195 bytes on, chunks go to S3
        clock=time.time,
    )


class _Noting(JobDirectory):
    """A directory whose notes count as moments."""

    def __init__(self, path: Path, host: Host) -> None:
        super().__init__(path)
        self._host = host

    def note_stored(self, seq: int) -> None:
        """Note, unless the disk is full."""
        if self._host.notes:
            super().note_stored(seq)
        self._host.moment()


@contextmanager
def host() -> Iterator[Host]:
    """A host whose chunks are small."""
    with folder() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipping, "CHUNK_BYTES", 400)
        made = Host(path)
        try:
            yield made
        finally:
            made.close()


SIZES = (10, 30, 300, 200, 150, 5, 40, 370, 20)
"""Records of a job: chunks in the table, in S3, and both beside each other."""


@pytest.mark.parametrize("written", [4, 6], ids=["its last chunk in S3", "in the table"])
def test_killed_at_any_moment_and_its_call_at_any_later_one_nothing_is_lost_or_read_twice(
    written: int,
):
    """The chunk that was being written is longer when the next process writes it."""
    visited = 0
    for point in range(1, 100):
        for late_at in range(1, 100):
            with host() as job:
                job.follower()
                job.follower(limit=1, room=1)
                job.write(*SIZES[:written])
                died = job.live(point)
                job.write(*SIZES[written:])
                was_under_way = bool(job.late)
                job.late_at = late_at
                job.check()
                visited += 1
            if not was_under_way or late_at > job.moments:
                break
        if not died:
            break
    else:
        raise AssertionError("it never lives to the end")
    print(f"pairs of moments visited: {visited}")
    assert visited > 50


def test_a_process_that_finds_no_note_repeats_its_chunks_and_they_are_refused():
    with host() as job:
        job.notes = False
        job.write(*SIZES)
        assert not job.live()
        before = {
            key: dict(row)
            for key, row in job.aws.memory.tables.rows[DESCRIPTOR.output_table].items()
        }
        job.write(50, 60)
        job.check()
        after = job.aws.memory.tables.rows[DESCRIPTOR.output_table]
        assert before == {key: after[key] for key in before}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 370), min_size=1, max_size=6)),
        st.tuples(st.just("live"), st.integers(1, 20) | st.none()),
        st.tuples(st.just("late"), st.integers(1, 12)),
        st.tuples(st.just("notes"), st.booleans()),
        st.tuples(st.just("reader"), st.integers(1, 5)),
    ),
    max_size=14,
)


@given(STEPS)
def test_any_writes_kills_restarts_and_reads_give_each_record_once_and_in_order(
    steps: list[tuple[str, Any]],
):
    with host() as job:
        for what, value in steps:
            match what:
                case "write":
                    job.write(*value)
                case "live":
                    job.live(value)
                case "late":
                    job.late_at = value
                case "notes":
                    job.notes = value
                case "reader":
                    job.follower(limit=value, room=100 * value)
        job.check()
