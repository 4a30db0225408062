"""Ships a job's output from its directory to AWS, in chunks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, repeat

from ec2_agent.calls import in_thread
from ec2_agent.jobs.running import RunningJob
from ec2_agent.logging import events
from ec2_agent.retry import Backoff, RetryPolicy, retry
from joblane.aws.job.output_store import OutputStore
from joblane.job.chunk import CHUNK_BYTES, Chunk
from joblane.job.message import FOLLOWED_S
from joblane.state.trace import Traced

FIRST_AFTER_S = 0.02
"""Wait before the first chunk: a first line should be seen at once, and is seldom alone."""

NEXT_AFTER_S = (1.0, 2.0, 4.0)
"""Waits between the first bytes of the next chunks and these chunks."""

LATER_AFTER_S = 5.0
"""Wait before each chunk after those. Each chunk costs a write, and nobody reads it yet."""

FOLLOWED_AFTER_S = 0.5
"""Wait before each chunk while somebody reads the output as it comes."""

RETRY = RetryPolicy(first_s=0.5, longest_s=5.0)


class OutputShipper:
    """Ships the output of one job in order; each chunk is retried until it has arrived."""

    def __init__(self, job: RunningJob, output: OutputStore, stream: str, traced: Traced) -> None:
        """Start shipping to the stream of that name; `traced` names the job in the log."""
        self._directory = job.directory
        self._log = job.directory.reader()
        self._shim = job.shim
        self._output = output
        self._stream = stream
        self._traced = traced
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._followed_until = 0.0
        self._at_once = False
        """Whether a reader has come who has not got what is there."""
        self._task: asyncio.Task[None] = asyncio.create_task(self._ship(), name=f"ship {stream}")

    def follow(self) -> None:
        """Ship what there is now, and more often for FOLLOWED_S: somebody reads the output."""
        self._at_once |= not self._followed
        self._followed_until = self._loop.time() + FOLLOWED_S
        self._shim.grown.set()

    async def finish(self, timeout_s: float | None) -> bool:
        """Ship the rest of output that has ended. Returns whether all of it arrived in time.

        The rest goes on in the background; the log is closed when all has arrived.
        """
        self._ended.set()
        self._shim.grown.set()
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        return bool(done)

    @property
    def complete(self) -> bool:
        """Whether all output has arrived."""
        task = self._task
        return task.done() and not task.cancelled() and task.exception() is None

    def then(self, call: Callable[[], None]) -> None:
        """Call when all has arrived; never if shipping is abandoned or fails."""
        self._task.add_done_callback(lambda _: call() if self.complete else None)

    async def abandon(self) -> None:
        """Stop at once."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    @property
    def _followed(self) -> bool:
        return self._loop.time() < self._followed_until

    async def _ship(self) -> None:
        try:
            for wait_s in _waits():
                await self._wait_for_output()
                await self._wait_for_more(wait_s)
                await self._ship_unread()
                if self._ended.is_set():
                    break
        finally:
            self._log.close()

    async def _wait_for_output(self) -> None:
        """Wait until there is output to read, or the output has ended."""
        while not self._ended.is_set() and not self._log.unread:
            self._shim.grown.clear()
            self._shim.want(self._log.at)
            await self._shim.grown.wait()

    async def _wait_for_more(self, wait_s: float) -> None:
        """Wait for more output to ship with it: not beyond its end, a full chunk or a reader."""
        begun, full = self._loop.time(), self._log.at + CHUNK_BYTES
        while not self._ended.is_set() and not self._at_once and self._log.size <= full:
            until = begun + (min(wait_s, FOLLOWED_AFTER_S) if self._followed else wait_s)
            self._shim.grown.clear()
            self._shim.want(full)
            try:
                async with asyncio.timeout_at(until):
                    await self._shim.grown.wait()
            except TimeoutError:
                break
        self._at_once = False

    async def _ship_unread(self) -> None:
        while self._log.unread:
            first = self._log.seq + 1
            last, frames = self._log.frames(CHUNK_BYTES)
            stored = await self._write(Chunk(first, last, frames))
            self._directory.note_stored(stored)
            self._log.skip(stored)

    async def _write(self, chunk: Chunk) -> int:
        """Write a chunk until it succeeds; output that comes meanwhile stays in the log."""
        return await retry(
            lambda: in_thread(lambda: self._output.write(self._stream, chunk), "ship output"),
            Backoff(RETRY),
            event=partial(events.output_waits, self._traced, self._stream),
        )


def _waits() -> Iterator[float]:
    return chain((FIRST_AFTER_S, *NEXT_AFTER_S), repeat(LATER_AFTER_S))
