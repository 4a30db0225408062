"""Read a job's output: a page of records, or a response of Server-Sent Events.

A Lambda function behind an HTTP API cannot stream its response. `EventSource` reconnects when a
response ends and sends the id of the last event it received. Each response contains the records
available; if there are none it waits for a few seconds, because another request costs more.

A request that waits holds an environment of the function, and an account has a limited number. So
each environment waits during half of the time only (`WaitWindow`), and the others are free for
submissions however many readers there are.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.contract.sse import end_event, position_event, reconnect_after, record_event
from joblane.errors import Unavailable
from joblane.formats.levels import Level
from joblane.job.head import Head
from joblane.job.output import Cursor
from joblane.service.log import Log
from joblane.service.output.pages import LogPage, log_page
from joblane.service.output.tail import TailStart, tail_start

WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Pauses between reads while there are no new records, 4.5 s in total."""

PERIOD_S = 9.0
"""Seconds from one window of an environment to the next."""

SHARE = 0.5
"""Part of the time in which an environment may wait. Alone, the reader of a job without output
costs about $0.012 per hour, for a function of 512 MB."""

RETRY_MS = 500
"""When a reader reconnects. Agents ship output that is followed every half second."""

UNWAITED_MS = 2000
"""When a reader reconnects for whom the function could not wait."""

AT_ONCE_MS = 10
"""When a reader reconnects if more records are available."""

TROUBLE_MS = 3000
"""When the reader of a stream reconnects while AWS is unavailable. An error would end its
stream: `EventSource` gives up at any status but 200."""


@dataclass(frozen=True, slots=True)
class Tail:
    """A reader starts at the end of what is there."""

    lines: int
    """With so many of the last lines."""


@dataclass(frozen=True, slots=True)
class WaitWindow:
    """When an environment of the function may wait: during a part of each period.

        environment A, phase 0      |wwwwwwww........|wwwwwwww........|
        environment B, phase 0.3    |wwww........wwww|wwww........wwww|

    Phases are random, so at any moment some half of all environments may wait, also when all
    readers come at the same moment. Nothing is counted, so that there is nothing to save up.
    """

    phase: float
    """0 to 1, random for each environment."""

    def left_s(self, now: float) -> float:
        """Seconds for which a request may wait at `now`, in Unix seconds; 0 outside the window."""
        return max(0.0, SHARE * PERIOD_S - (now + self.phase * PERIOD_S) % PERIOD_S)


@dataclass(frozen=True)
class JobOutput:
    """Reads the output of jobs."""

    jobs: JobStore
    store: OutputStore
    clock: Callable[[], float]
    log: Log
    may_wait: Callable[[float], float]
    """Seconds for which a request may wait at a time of the clock: `WaitWindow.left_s`."""
    at_end: Callable[[Head], None]
    """Called when a reader has all the output that is there: `FollowSender.note_end`."""
    sleep: Callable[[float], None] = time.sleep

    def page(
        self, head: Head, start: Cursor | Tail, limit: int, level: Level | None = None
    ) -> LogPage:
        """Read a page of records, after a cursor or from the last so many lines on.

        With `level`, of the records of this level and above.
        """
        found = self._find_start(head, start, level)
        page = log_page(
            self.store,
            head,
            found.cursor,
            limit=limit,
            now_ms=int(self.clock() * 1000),
            cut=found.cut,
            level=level,
        )
        if not page.more and not page.complete:
            self.at_end(head)
        return page

    def _find_start(self, head: Head, start: Cursor | Tail, level: Level | None) -> TailStart:
        if isinstance(start, Tail):
            return tail_start(self.store, head, start.lines, level)
        return TailStart(start)

    def events(
        self, head: Head, start: Cursor | Tail, limit: int, level: Level | None = None
    ) -> str:
        """Encode the output after `start`, up to `limit` records and a little over 1 MB.

        Returns at once if there are records, otherwise after `WAITS_S` or at the end of the window
        at the latest. If AWS is unavailable, the response asks the reader to reconnect. Raises
        ValueError as `page`.
        """
        try:
            return self._events(head, start, limit, level)
        except Unavailable as error:
            self.log.error("aws call failed", error=str(error))  # noqa: TRY400 - no traceback
            return reconnect_after(TROUBLE_MS)

    def _events(self, head: Head, start: Cursor | Tail, limit: int, level: Level | None) -> str:
        place, retry_ms = start, RETRY_MS
        for wait_s in (*WAITS_S, None):
            page = self.page(head, place, limit, level)
            place = page.cursor
            if page.entries or page.complete or page.more or wait_s is None:
                break
            left_s = self.may_wait(self.clock())
            if left_s == 0:
                retry_ms = UNWAITED_MS
                break
            self.sleep(min(wait_s, left_s))
            fresh = self.jobs.get(head.job_id)
            if fresh is None:
                break  # deleted: the next request does not find it
            head = fresh
        events = [record_event(entry.record, entry.cursor) for entry in page.entries]
        if page.complete:
            events.append(end_event(head))
        elif page.cursor != (page.entries[-1].cursor if page.entries else start):
            events.append(position_event(page.cursor))
        return "".join([reconnect_after(AT_ONCE_MS if page.more else retry_ms), *events])
