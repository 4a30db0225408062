"""The route of a job's output: a page of JSON, or by `Accept` a stream of events."""

import time
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus

from aws_lambda_powertools.event_handler.api_gateway import Response
from botocore.exceptions import BotoCoreError, ClientError

from joblane.answers import success
from joblane.aws.jobs import JobStore
from joblane.aws.log_events import LogEvents
from joblane.aws.logs import LogStore
from joblane.head import Head
from joblane.logs import Cursor
from joblane.model import LOG_PAGE_MAX
from joblane.problems import wrong
from joblane.queries import LOG_PAGE_DEFAULT, LogQuery
from joblane.sse import EVENT_STREAM, come_back
from joblane.web import Application

LAST_EVENT_ID = "Last-Event-ID"

TROUBLE_MS = 3000
"""When the reader of a stream comes back while CloudWatch does not answer. An error would end
its stream: `EventSource` gives up at any status but 200."""


class Output:
    """Answers for `GET /v1/jobs/{id}/logs`."""

    def __init__(
        self,
        jobs: JobStore,
        make_logs: Callable[[], LogStore],
        clock: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._jobs = jobs
        self._make_logs = make_logs
        self._clock = clock
        self._sleep = sleep

    @cached_property
    def _logs(self) -> LogStore:
        return self._make_logs()  # a client that most cold starts never need

    def answer(self, app: Application, head: Head, query: LogQuery) -> Response[str]:
        """Answer a request for a job's output.

        Raises Problem 400 naming a parameter or header that is not ours.
        """
        if _wants_events(app.header("accept")):
            return self._events(app, head, query, query.limit or LOG_PAGE_MAX)
        try:
            return self._page(head, _cursor(query.next), query.limit or LOG_PAGE_DEFAULT)
        except ValueError as error:
            raise wrong("next", f"{error}; pass what the last page returned") from None

    def _page(self, head: Head, cursor: Cursor, limit: int) -> Response[str]:
        page = self._logs.page(head, cursor, limit=limit, now_ms=int(self._clock() * 1000))
        return success(
            {
                "entries": [record.model_dump(exclude_none=True) for record in page.records],
                "limit": limit,
                "next": page.cursor.encode(),
                "state": head.state,
                "complete": page.complete,
            }
        )

    def _events(self, app: Application, head: Head, query: LogQuery, limit: int) -> Response[str]:
        # A reader that comes back repeats its query and adds the header.
        seen = app.header(LAST_EVENT_ID.lower())
        name = "next" if not seen else LAST_EVENT_ID
        try:
            cursor = _cursor(seen or query.next)
            if seen and cursor.was_told_end(head):
                return Response(int(HTTPStatus.NO_CONTENT), body="")
            events = LogEvents(self._jobs, self._logs, self._clock, self._sleep)
            text = events.answer(head, cursor, limit)
        except ValueError as error:
            raise wrong(name, f"{error}; pass the id of the last event, or leave it out") from None
        except (ClientError, BotoCoreError) as error:
            app.log_trouble(error)
            text = come_back(TROUBLE_MS)
        return Response(int(HTTPStatus.OK), EVENT_STREAM, text, {"Cache-Control": "no-store"})


def _cursor(text: str | None) -> Cursor:
    return Cursor() if text is None else Cursor.decode(text)


def _wants_events(accept: str | None) -> bool:
    """Whether a request asks for events; JSON is what a caller gets who does not name them."""
    kinds = (part.partition(";")[0].strip() for part in (accept or "").lower().split(","))
    return EVENT_STREAM in kinds
