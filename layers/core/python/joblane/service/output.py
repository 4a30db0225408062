"""Read a job's output: a page of records, or a response of Server-Sent Events."""

import time
from collections.abc import Callable
from functools import cached_property

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.jobs import JobStore
from joblane.aws.logs import LogStore
from joblane.contract.sse import reconnect_after
from joblane.job.head import Head
from joblane.job.output import Cursor
from joblane.service.log import Log
from joblane.service.log_events import LogEvents
from joblane.service.log_pages import LogPage, log_page

TROUBLE_MS = 3000
"""When the reader of a stream reconnects while CloudWatch is unavailable. An error would end its
stream: `EventSource` gives up at any status but 200."""


class JobOutput:
    """Reads the output of jobs; `make_logs` is called when the first output is read."""

    def __init__(
        self,
        jobs: JobStore,
        make_logs: Callable[[], LogStore],
        clock: Callable[[], float],
        log: Log,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._jobs = jobs
        self._make_logs = make_logs
        self._clock = clock
        self._log = log
        self._sleep = sleep

    @cached_property
    def _logs(self) -> LogStore:
        return self._make_logs()  # a client that most cold starts never need

    def page(self, head: Head, cursor: Cursor, limit: int) -> LogPage:
        """Read a page of records. Raises ValueError for a cursor that CloudWatch refuses."""
        return log_page(self._logs, head, cursor, limit=limit, now_ms=int(self._clock() * 1000))

    def events(self, head: Head, cursor: Cursor, limit: int) -> str:
        """Encode the events after a cursor; waits briefly if there are none yet.

        If AWS is unavailable, the response asks the reader to reconnect.
        Raises ValueError as `page`.
        """
        try:
            events = LogEvents(self._jobs, self._logs, self._clock, self._sleep)
            return events.answer(head, cursor, limit)
        except (ClientError, BotoCoreError) as error:
            self._log.error("aws call failed", error=str(error))
            return reconnect_after(TROUBLE_MS)
