"""Ships a job's output from its directory to its CloudWatch Logs stream."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from ec2_agent.calls import in_thread
from ec2_agent.jobs.running import RunningJob
from ec2_agent.logging import events
from ec2_agent.retry import Backoff, RetryPolicy, retry
from ec2_agent.shim.log import Reader
from joblane.aws.logs import LogStore
from joblane.job.output import Record, Stream

FIRST_AFTER_S = 0.02
"""Wait before the first batch: a first line should be seen at once, and is seldom alone."""

BATCH_EVERY_S = 0.5
"""Wait between later batches: two requests a second and job stay far below the account's
quota of 5,000 (800 in some regions) with hundreds of jobs that write much."""

BATCH_BYTES = 160 * 1024
"""Output in one batch: CloudWatch takes 1 MB, and JSON writes a byte as six at worst."""

BATCH_RECORDS = 1000

RETRY = RetryPolicy(first_s=0.5, longest_s=5.0)


def next_batch(log: Reader, most_bytes: int, most_records: int) -> list[Record]:
    """Read the next records: one at least, about `most_bytes` of output at most."""
    records: list[Record] = []
    size = 0
    while log.unread and len(records) < most_records:
        size += log.next_length()
        if records and size > most_bytes:
            break
        seq, stream, time_ms, data = log.read()
        records.append(Record(seq, cast("Stream", stream), time_ms, data))
    return records


class OutputShipper:
    """Ships the output of one job in order; each record is retried until it has arrived."""

    def __init__(self, job: RunningJob, logs: LogStore, stream: str) -> None:
        """Start shipping to the stream of that name."""
        self._directory = job.directory
        self._log = job.directory.reader()
        self._shim = job.shim
        self._logs = logs
        self._stream = stream
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] = asyncio.create_task(self._ship(), name=f"ship {stream}")

    async def finish(self, timeout_s: float | None) -> bool:
        """Ship the rest of output that has ended. Returns whether all of it arrived in time.

        The rest goes on in the background; the log is closed when all has arrived.
        """
        self._ended.set()
        self._shim.grown.set()
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        return bool(done)

    def then(self, call: Callable[[], None]) -> None:
        """Call when all has arrived; never if shipping is abandoned or fails."""

        def shipped(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is None:
                call()

        self._task.add_done_callback(shipped)

    async def abandon(self) -> None:
        """Stop at once."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _ship(self) -> None:
        try:
            await self._wait_for_output()
            await self._pause(FIRST_AFTER_S)
            if self._log.unread:  # a job without output costs no request
                await self._retried(lambda: self._logs.create(self._stream))
            while self._log.unread or not self._ended.is_set():
                while self._log.unread:
                    batch = next_batch(self._log, BATCH_BYTES, BATCH_RECORDS)
                    await self._retried(partial(self._logs.write, self._stream, batch))
                    self._directory.note_shipped(batch[-1].seq)
                if not self._ended.is_set():
                    await self._wait_for_output()
                    await self._pause(BATCH_EVERY_S)
        finally:
            self._log.close()

    async def _wait_for_output(self) -> None:
        """Wait until there is output to read, or the output has ended."""
        while not self._ended.is_set() and not self._log.unread:
            self._shim.grown.clear()
            self._shim.want(self._log.at)
            await self._shim.grown.wait()

    async def _pause(self, seconds: float) -> None:
        """Wait for more output to ship at once; the output's end cuts the pause short."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    async def _retried(self, call: Callable[[], None]) -> None:
        """Make a call until it succeeds; output that comes meanwhile stays in the log."""
        await retry(
            lambda: in_thread(call, "ship logs"),
            Backoff(RETRY),
            event=partial(events.output_waits, self._stream),
        )
