"""A job's output as Server-Sent Events: one answer of many, of which a reader makes a stream.

A function behind an HTTP API answers in one piece, so a stream is what `EventSource` makes of
answers that end: it comes back by itself and says which event it saw last. Each answer holds
what is there; without news it waits a little for some, because asking again costs more.
"""

from collections.abc import Callable

from joblane.aws.jobs import JobStore
from joblane.aws.logs import LogStore
from joblane.head import Head
from joblane.logs import Cursor
from joblane.sse import come_back, end_event, place, record_event

WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Waits between two looks while there is nothing new, 4.5 s in all. A function of 512 MB that
waits so for a job which says nothing costs about $0.025 an hour and reader."""

RETRY_MS = 500
"""When a reader comes back. Agents ship the output of a busy job every half second."""

AT_ONCE_MS = 10
"""When a reader comes back to whom only a part of what is there was told."""


class LogEvents:
    """Writes answers of `text/event-stream`."""

    def __init__(
        self,
        jobs: JobStore,
        logs: LogStore,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._jobs = jobs
        self._logs = logs
        self._clock = clock
        self._sleep = sleep

    def answer(self, head: Head, start: Cursor, limit: int) -> str:
        """Write what comes after `start`, up to `limit` records and a little over 1 MB.

        Returns at once when there is something, and after `WAITS_S` when nothing came. Raises
        ValueError for a cursor that CloudWatch does not take.
        """
        cursor = start
        for wait_s in (*WAITS_S, None):
            page = self._logs.page(head, cursor, limit=limit, now_ms=int(self._clock() * 1000))
            cursor = page.cursor
            if page.entries or page.complete or page.full or wait_s is None:
                break
            self._sleep(wait_s)
            fresh = self._jobs.get(head.job_id)
            if fresh is None:
                break  # deleted: whoever comes back is told so
            head = fresh
        events = [record_event(entry.record, entry.cursor) for entry in page.entries]
        if page.complete:
            events.append(end_event(head))
        elif cursor != (page.entries[-1].cursor if page.entries else start):
            events.append(place(cursor))
        return "".join([come_back(AT_ONCE_MS if page.full else RETRY_MS), *events])
