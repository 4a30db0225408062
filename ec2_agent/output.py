"""From a job's pipes to its CloudWatch Logs stream, at the job's pace and then at AWS's."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.spool import Cutter, Spool
from joblane.aws.logs import LogStore
from joblane.logs import Stream

READ_BYTES = 64 * 1024
"""One read: a pipe's usual size, so that a flood on one pipe does not keep the others waiting."""

PIPE_BYTES = 1024 * 1024
"""The most a pipe can hold (fs.pipe-max-size)."""

PARTIAL_AFTER_S = 0.2
"""An unfinished line (a prompt, a progress bar) is shown after this long."""

FIRST_AFTER_S = 0.02
"""Wait before the first batch: a first line is wanted at once, and seldom comes alone."""

BATCH_EVERY_S = 0.5
"""Wait between later batches: two requests a second and job stay far below the account's
quota of 5,000 (800 in some regions) with hundreds of chatty jobs."""

BATCH_BYTES = 160 * 1024
"""Output in one batch: CloudWatch takes 1 MB, and JSON writes a byte as six at worst."""

BATCH_RECORDS = 1000

RETRY_S = (0.5, 1.0, 2.0, 5.0)

log = logging.getLogger(__name__)


class Capture:
    """Reads a job's stdout and stderr into a spool without ever letting the job wait."""

    def __init__(self, spool: Spool, clock: Callable[[], float]) -> None:
        self._spool = spool
        self._clock = clock
        self._open: dict[int, tuple[Stream, Cutter]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.written = asyncio.Event()
        """Set whenever the spool may hold something unread."""

    def pipe(self, stream: Stream) -> int:
        """Make a pipe; its read end is watched here, its write end belongs to the caller."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        self._open[ours] = (stream, Cutter())
        asyncio.get_running_loop().add_reader(ours, self._readable, ours)
        return theirs

    def close(self) -> None:
        """Take what the pipes still hold, then stop.

        Every writer is dead by now; if one has passed its end of the pipe to a stranger all the
        same, that must not keep us here.
        """
        for fd in tuple(self._open):
            for _ in range(PIPE_BYTES // READ_BYTES):
                if fd not in self._open or not self._readable(fd):
                    break
            self._end(fd)

    def _readable(self, fd: int) -> bool:
        """Read once. Returns whether there may be more."""
        stream, cutter = self._open[fd]
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._end(fd)
            return False
        for piece in cutter.feed(data):
            self._write(stream, piece)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PARTIAL_AFTER_S, self._flush)
        return True

    def _flush(self) -> None:
        self._timer = None
        for stream, cutter in self._open.values():
            for piece in cutter.flush():
                self._write(stream, piece)

    def _end(self, fd: int) -> None:
        if fd not in self._open:
            return
        stream, cutter = self._open.pop(fd)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        for piece in cutter.flush():
            self._write(stream, piece)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self, stream: Stream, piece: bytes) -> None:
        self._spool.write(stream, piece, int(self._clock() * 1000))
        self.written.set()


class Shipper:
    """Carries a spool to CloudWatch Logs, in order, each record until it has arrived."""

    def __init__(self, spool: Spool, written: asyncio.Event, store: LogStore, stream: str) -> None:
        self._spool = spool
        self._written = written
        self._store = store
        self._stream = stream
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] = asyncio.create_task(self._carry(), name=f"ship {stream}")

    async def finish(self, timeout_s: float) -> bool:
        """Carry the rest; the output has ended. Returns whether all has arrived in time.

        What has not goes on in the background; the spool is closed when it is through.
        """
        self._ended.set()
        self._written.set()
        done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        return bool(done)

    async def abandon(self) -> None:
        """Stop at once."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _carry(self) -> None:
        try:
            await self._written.wait()
            await self._pause(FIRST_AFTER_S)
            if self._spool.unread:  # a job without output costs no request
                await self._insist(lambda: self._store.create(self._stream))
            while self._spool.unread or not self._ended.is_set():
                self._written.clear()
                while self._spool.unread:
                    batch = self._spool.read(BATCH_BYTES, BATCH_RECORDS)
                    await self._insist(partial(self._store.write, self._stream, batch))
                if not self._ended.is_set():
                    await self._written.wait()
                    await self._pause(BATCH_EVERY_S)
        finally:
            self._spool.close()

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
                    log.warning("output of %s waits for CloudWatch Logs: %s", self._stream, error)
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        return None
