"""The route of a job's output: a page of JSON, or by `Accept` a stream of events."""

from http import HTTPStatus

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.problems import Conflict, wrong
from joblane.contract.queries import LOG_PAGE_DEFAULT, LogQuery
from joblane.contract.route_tables.logs import LOG_ROUTES
from joblane.contract.sse import EVENT_STREAM
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.job.head import Head
from joblane.job.output import Cursor
from joblane.job.spec import LOG_PAGE_MAX
from joblane.service.output.read import JobOutput, Tail

LAST_EVENT_ID = "Last-Event-ID"


def log_route(app: Application, output: JobOutput) -> None:
    """Bind the route of a job's output."""
    app.add(LOG_ROUTES)

    @app.route("GET /v1/jobs/{job_id}/logs")
    def logs(job_id: str) -> Response[str]:
        head = app.job(job_id)
        if head.group is not None:
            raise Conflict(
                "the job is a group, which has no output of its own; read its members' logs, whose "
                f"ids GET /v1/groups/{job_id} has",
            )
        query = app.parameters(LogQuery)
        if _wants_events(app.header("accept")):
            return _events(output, head, query, app.header(LAST_EVENT_ID.lower()))
        return _page(output, head, query)


def _page(output: JobOutput, head: Head, query: LogQuery) -> Response[str]:
    limit = query.limit or (LOG_PAGE_DEFAULT if query.tail is None else LOG_PAGE_MAX)
    try:
        page = output.page(head, _start(query.next, query.tail), limit, query.level)
    except ValueError as error:
        raise wrong("next", f"{error}; pass what the last page returned") from None
    return success(
        {
            "entries": [record.model_dump(exclude_none=True) for record in page.records],
            "limit": limit,
            "next": page.cursor.encode(),
            "state": head.state,
            "more": page.more,
            "complete": page.complete,
        }
    )


def _events(
    output: JobOutput, head: Head, query: LogQuery, last_event_id: str | None
) -> Response[str]:
    """Answer events. A reader that reconnects repeats its query and adds `Last-Event-ID`."""
    try:
        start = _start(last_event_id or query.next, query.tail)
        if last_event_id and isinstance(start, Cursor) and start.is_past_end_of(head):
            return Response(int(HTTPStatus.NO_CONTENT), body="")
        text = output.events(head, start, query.limit or LOG_PAGE_MAX, query.level)
    except ValueError as error:
        name = LAST_EVENT_ID if last_event_id else "next"
        raise wrong(name, f"{error}; pass the id of the last event, or leave it out") from None
    return Response(int(HTTPStatus.OK), EVENT_STREAM, text, {"Cache-Control": "no-store"})


def _start(cursor: str | None, tail: int | None) -> Cursor | Tail:
    """Where to read from. A cursor counts: a reader repeats its query with each reconnection."""
    if cursor is not None:
        return Cursor.decode(cursor)
    return Cursor() if tail is None else Tail(tail)


def _wants_events(accept: str | None) -> bool:
    """Whether a request accepts events by name; every other request gets JSON."""
    kinds = (part.partition(";")[0].strip() for part in (accept or "").lower().split(","))
    return EVENT_STREAM in kinds
