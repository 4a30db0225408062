"""A job's output as Server-Sent Events, in finite responses that a reader joins into a stream.

A Lambda function behind an HTTP API cannot stream its response. `EventSource` reconnects when a
response ends and sends the id of the last event it received. Each response contains the records
available; if there are none it waits for a few seconds, because another request costs more.
"""

from collections.abc import Callable

from joblane.aws.jobs import JobStore
from joblane.aws.logs import LogStore
from joblane.contract.sse import end_event, position_event, reconnect_after, record_event
from joblane.job.head import Head
from joblane.job.output import Cursor
from joblane.service.log_pages import log_page

WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Pauses between reads while there are no new records, 4.5 s in total. For a job without output
a function of 512 MB costs about $0.025 per hour and reader."""

RETRY_MS = 500
"""When a reader reconnects. Agents ship the output of a busy job every half second."""

AT_ONCE_MS = 10
"""When a reader reconnects if more records are available."""


class LogEvents:
    """Encodes responses of type `text/event-stream`."""

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
        """Encode the output after `start`, up to `limit` records and a little over 1 MB.

        Returns at once if there are records, otherwise after `WAITS_S` at the latest. Raises
        ValueError for a cursor that CloudWatch rejects.
        """
        cursor = start
        for wait_s in (*WAITS_S, None):
            page = log_page(self._logs, head, cursor, limit=limit, now_ms=int(self._clock() * 1000))
            cursor = page.cursor
            if page.entries or page.complete or page.full or wait_s is None:
                break
            self._sleep(wait_s)
            fresh = self._jobs.get(head.job_id)
            if fresh is None:
                break  # deleted: the next request is answered 404
            head = fresh
        events = [record_event(entry.record, entry.cursor) for entry in page.entries]
        if page.complete:
            events.append(end_event(head))
        elif cursor != (page.entries[-1].cursor if page.entries else start):
            events.append(position_event(cursor))
        return "".join([reconnect_after(AT_ONCE_MS if page.full else RETRY_MS), *events])
