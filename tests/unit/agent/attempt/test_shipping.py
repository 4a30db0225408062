"""When chunks of output go."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from ec2_agent.attempt import shipping
from ec2_agent.attempt.shipping import OutputShipper
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.running import RunningJob
from ec2_agent.logging.standard import JsonLines
from ec2_agent.shim.log import FRAME
from joblane.aws.job.output_store import OutputStore
from joblane.job.chunk import CHUNK_BYTES
from joblane.job.message import FOLLOWED_S
from tests.support.jobs import JOB
from tests.support.shipping import OURS, STREAM, Shim, directly, folder
from tests.support.virtual_time import run


@pytest.fixture(name="_direct", autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "in_thread", directly)


class Times(OutputStore):
    """Notes when each chunk was written, and its last record."""

    def __init__(self) -> None:
        self.chunks: list[tuple[float, int]] = []

    def write(self, stream: str, chunk: Any) -> int:
        """Note a chunk."""
        assert stream == STREAM
        now = asyncio.get_running_loop().time()
        self.chunks.append((round(now, 3), chunk.last))
        assert len(chunk.frames) <= CHUNK_BYTES
        return int(chunk.last)

    @property
    def times(self) -> list[float]:
        """When chunks were written."""
        return [at for at, _ in self.chunks]


Script = Callable[[Shim, OutputShipper], Any]


def ship_output(script: Script, store: Times | None = None) -> Times:
    """Ship what a job writes in virtual time; the script is the job."""
    store = store or Times()

    async def ship(path: Path) -> None:
        shim = Shim(path)
        directory = JobDirectory(path)
        shipper = OutputShipper(RunningJob(directory, cast("Any", shim)), store, STREAM, OURS)
        await script(shim, shipper)
        assert await shipper.finish(None)
        assert ([n for _, n in store.chunks] or [0])[-1] == shim.writer.seq
        directory.close()
        shim.close()

    with folder() as path:
        run(ship(path))
    return store


def gaps(times: list[float]) -> list[float]:
    return [round(b - a, 3) for a, b in pairwise(times)]


async def lines(shim: Shim, seconds: float) -> None:
    """Write a line ten times a second."""
    for _ in range(round(10 * seconds)):
        shim.write(b"line\n")
        await asyncio.sleep(0.1)


def test_output_that_waits_says_so_with_its_job_and_trace(caplog: pytest.LogCaptureFixture):
    class Away(Times):
        """Does not answer once."""

        def write(self, stream: str, chunk: Any) -> int:
            if not caplog.records:
                raise ClientError({"Error": {"Code": "Throttling"}}, "PutItem")
            return super().write(stream, chunk)

    async def job(shim: Shim, _shipper: OutputShipper) -> None:
        shim.write(b"hello\n")

    assert 1 == len(ship_output(job, Away()).chunks)
    (record,) = caplog.records
    line = json.loads(JsonLines().format(record))
    assert ("output_waits", JOB, OURS.trace_id) == (line["event"], line["job_id"], line["trace_id"])


def test_a_job_with_one_line_has_one_chunk():
    async def job(shim: Shim, _shipper: OutputShipper) -> None:
        await asyncio.sleep(7)
        shim.write(b"hello\n")
        await asyncio.sleep(60)

    assert [(7.02, 1)] == ship_output(job).chunks


def test_a_silent_job_has_no_chunk():
    async def job(_shim: Shim, _shipper: OutputShipper) -> None:
        await asyncio.sleep(60)

    assert [] == ship_output(job).chunks


def test_output_that_nobody_follows_goes_ever_less_often():
    async def job(shim: Shim, _shipper: OutputShipper) -> None:
        await lines(shim, 30)

    times = ship_output(job).times
    assert (0.02, 30.0) == (times[0], times[-1])
    # Each wait begins with the first line after the chunk before; the end ships the rest.
    for gap, wait in zip(gaps(times)[:-1], (1, 2, 4, 5, 5, 5, 5), strict=True):
        assert wait <= gap < wait + 0.101


def test_output_that_is_followed_goes_at_once_and_then_often():
    async def job(shim: Shim, shipper: OutputShipper) -> None:
        writing = asyncio.create_task(lines(shim, 80))
        await asyncio.sleep(20.05)
        shipper.follow()
        await asyncio.sleep(10)
        shipper.follow()  # again, as its reader's function says every 20 s
        await writing

    times = ship_output(job).times
    assert 20.05 in times
    followed = [at for at in times if 20.05 < at <= 30.05 + FOLLOWED_S]
    assert 80 <= len(followed) <= 100
    assert all(0.5 <= gap < 0.601 for gap in gaps(followed))
    later = [at for at in times if at > 30.05 + FOLLOWED_S]
    assert 2 == len(later)
    assert 80.0 == later[-1]


def test_a_reader_who_comes_before_the_output_gets_its_first_line_soon():
    async def job(shim: Shim, shipper: OutputShipper) -> None:
        shipper.follow()
        await asyncio.sleep(3)
        shim.write(b"hello\n")
        await asyncio.sleep(10)

    assert [(3.0, 1)] == ship_output(job).chunks


def test_a_full_chunk_goes_at_once():
    async def job(shim: Shim, _shipper: OutputShipper) -> None:
        await lines(shim, 20)
        await asyncio.sleep(3.33)
        for _ in range(40):
            shim.write(b"x" * 32_000)
        await asyncio.sleep(0.01)
        shim.write(b"more")
        await asyncio.sleep(30)

    times = ship_output(job).times
    assert 23.33 in times


def test_the_end_ships_the_rest_in_as_many_chunks_as_it_needs():
    async def job(shim: Shim, _shipper: OutputShipper) -> None:
        shim.write(b"x")
        await asyncio.sleep(1)
        for _ in range(100):
            shim.write(b"x" * 32_000)

    per_chunk = CHUNK_BYTES // (FRAME.size + 32_000)
    chunks = ship_output(job).chunks
    assert [1, 1 + per_chunk, 1 + 2 * per_chunk] == [last for _, last in chunks[:3]]
    assert (1.0, 101) == chunks[-1]
