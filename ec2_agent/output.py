"""From what a job's shim writes down to its CloudWatch Logs stream, at AWS's pace."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import OutputWaits
from ec2_agent.log_event import tell
from ec2_agent.spool import Spool
from joblane.aws.logs import LogStore

FIRST_AFTER_S = 0.02
"""Wait before the first batch: a first line is wanted at once, and seldom comes alone."""

BATCH_EVERY_S = 0.5
"""Wait between later batches: two requests a second and job stay far below the account's
quota of 5,000 (800 in some regions) with hundreds of chatty jobs."""

BATCH_BYTES = 160 * 1024
"""Output in one batch: CloudWatch takes 1 MB, and JSON writes a byte as six at worst."""

BATCH_RECORDS = 1000

RETRY_S = (0.5, 1.0, 2.0, 5.0)


Destination = tuple[LogStore, str]
"""Where output goes: the store and the stream."""


class Shipper:
    """Carries a spool to CloudWatch Logs, in order, each record until it has arrived."""

    def __init__(
        self, spool: Spool, grown: asyncio.Event, want: Callable[[int], None], out: Destination
    ) -> None:
        """Begin. `want` asks for `grown` to be set when the file is longer than so many bytes."""
        self._spool = spool
        self._grown = grown
        self._want = want
        self._store, self._stream = out
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] = asyncio.create_task(self._carry(), name=f"ship {out[1]}")

    async def finish(self, timeout_s: float | None) -> bool:
        """Carry the rest; the output has ended. Returns whether all has arrived in time.

        What has not goes on in the background; the spool is closed when it is through.
        """
        self._ended.set()
        self._grown.set()
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        return bool(done)

    def then(self, call: Callable[[], None]) -> None:
        """Call when all has arrived; never if that does not come to pass."""

        def through(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is None:
                call()

        self._task.add_done_callback(through)

    async def abandon(self) -> None:
        """Stop at once."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _carry(self) -> None:
        try:
            await self._more()
            await self._pause(FIRST_AFTER_S)
            if self._spool.unread:  # a job without output costs no request
                await self._insist(lambda: self._store.create(self._stream))
            while self._spool.unread or not self._ended.is_set():
                while self._spool.unread:
                    batch = self._spool.read(BATCH_BYTES, BATCH_RECORDS)
                    await self._insist(partial(self._store.write, self._stream, batch))
                    self._spool.confirm(batch[-1].seq)
                if not self._ended.is_set():
                    await self._more()
                    await self._pause(BATCH_EVERY_S)
        finally:
            self._spool.close()

    async def _more(self) -> None:
        """Wait until there is something to read, or nothing more to come."""
        while not self._ended.is_set() and not self._spool.unread:
            self._grown.clear()
            self._want(self._spool.at)
            await self._grown.wait()

    async def _pause(self, seconds: float) -> None:
        """Let output gather; its end cuts the pause short."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    async def _insist(self, call: Callable[[], None]) -> None:
        """Make a call until it succeeds; the spool keeps what comes meanwhile."""
        for tries in count():
            try:
                return await in_thread(call, "ship logs")
            except (BotoCoreError, ClientError) as error:
                if tries == 0:
                    tell(OutputWaits(self._stream, error))
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        return None
