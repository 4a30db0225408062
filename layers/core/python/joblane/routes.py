"""The routes of the API: the one table from which gateway, functions, OpenAPI and tests are made.

A route that is not here is served by nothing: the stacks make API Gateway's routes from this
table, and `joblane.web.Application.route` binds a handler only to one of them, behind its scope.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Literal

from pydantic import BaseModel

from joblane.access import Scope
from joblane.audit import Action, AuditPage, Because
from joblane.conditions import Declaration
from joblane.job import Cancelled, Job
from joblane.login import Login
from joblane.model import Batch, Submission
from joblane.queries import AuditQuery, ListJobs, LogQuery, NoQuery, PageQuery, Query, WorkQuery
from joblane.queues import SettingsInput, SettingsView
from joblane.views import (
    AgentDetail,
    AgentPage,
    AppView,
    BatchAnswer,
    ConditionPage,
    Contract,
    Drained,
    Health,
    JobPage,
    LogPage,
    QueuePage,
    QueueView,
    Requeued,
    Restarted,
)

Method = Literal["GET", "POST", "PUT", "DELETE"]

FunctionName = Literal["submission", "admin"]


@dataclass(frozen=True, slots=True)
class Rate:
    """What API Gateway lets through of one route, over all callers; more is answered 429."""

    per_second: int
    burst: int
    """Requests at once, on top of what has been let through lately."""


READS: Final = Rate(200, 400)
WRITES: Final = Rate(200, 400)
SWEEPS: Final = Rate(10, 20)
"""A request here reads or writes up to a hundred jobs, or asks SQS twice for each lane."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path of the API, the function behind it, the scope a caller needs, and its contract."""

    method: Method
    path: str
    """With `{parameters}` as API Gateway and OpenAPI write them; handlers take them by name."""
    function: FunctionName
    scope: Scope | None
    """None leaves the route open to anyone, with or without a token."""
    summary: str
    """One line for people: what it does."""
    _: KW_ONLY
    action: Action | None = None
    """What the audit trail calls it; None for what changes nothing, and for submissions: who
    submitted a job stands in the job (decision 0513)."""
    answer: type[BaseModel] | None = None
    """Body of a success; None for one without a body."""
    status: HTTPStatus = HTTPStatus.OK
    query: type[Query] = NoQuery
    body: type[BaseModel] | None = None
    """None for a request without a body; `Because` may be left out altogether."""
    errors: tuple[HTTPStatus, ...] = ()
    """What can go wrong beside what `problems` derives: 409 where a job's state decides."""
    rate: Rate = READS
    idempotent: bool = False
    """Whether it takes an Idempotency-Key."""
    conditional: bool = False
    """Whether it takes If-Match."""
    streams: bool = False
    """Whether it also answers Server-Sent Events, to those who ask for them by `Accept`."""

    @property
    def key(self) -> str:
        """API Gateway's name of it: `GET /v1/jobs/{job_id}`."""
        return f"{self.method} {self.path}"

    @property
    def problems(self) -> tuple[HTTPStatus, ...]:
        """Every status with which this route answers when it does not succeed."""
        found = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, *self.errors}
        found |= {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
        if self.scope is not None:
            found |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
        if self.idempotent:
            found |= {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}
        if self.conditional:
            found.add(HTTPStatus.PRECONDITION_FAILED)
        if "{" in self.path:
            found.add(HTTPStatus.NOT_FOUND)
        if self.body is not None:
            found.add(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return tuple(sorted(found))


_HIDING: Final[tuple[tuple[Action, str], ...]] = (
    ("hide", "Leave a job that has ended out of lists"),
    ("unhide", "Show a hidden job in lists again"),
)

ROUTES: Final = (
    Route(
        "POST",
        "/v1/jobs",
        "submission",
        "jobs.submit",
        "Submit a job",
        body=Submission,
        idempotent=True,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        rate=WRITES,
    ),
    Route(
        "POST",
        "/v1/jobs/batch",
        "submission",
        "jobs.submit",
        "Submit up to 100 jobs",
        body=Batch,
        idempotent=True,
        answer=BatchAnswer,
        rate=SWEEPS,
    ),
    Route(
        "GET",
        "/v1/jobs",
        "submission",
        "jobs.read",
        "List jobs, newest first",
        query=ListJobs,
        answer=JobPage,
    ),
    Route("GET", "/v1/jobs/{job_id}", "submission", "jobs.read", "Read a job", answer=Job),
    Route(
        "GET",
        "/v1/jobs/{job_id}/logs",
        "submission",
        "jobs.read",
        "Read a job's output",
        query=LogQuery,
        answer=LogPage,
        streams=True,
    ),
    Route(
        "DELETE",
        "/v1/jobs/{job_id}",
        "submission",
        "jobs.cancel",
        "Delete a job",
        action="delete",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/cancel",
        "submission",
        "jobs.cancel",
        "Cancel a job",
        action="cancel",
        body=Because,
        answer=Cancelled,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/retry",
        "submission",
        "jobs.submit",
        "Start a job again",
        action="retry",
        body=Because,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/resubmit",
        "submission",
        "jobs.submit",
        "Submit a job that has ended again, under a new id",
        action="resubmit",
        body=Because,
        idempotent=True,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        rate=WRITES,
    ),
    *(
        Route(
            "POST",
            f"/v1/jobs/{{job_id}}/{verb}",
            "submission",
            "jobs.cancel",
            summary,
            action=verb,
            body=Because,
            answer=Job,
            errors=(HTTPStatus.CONFLICT,),
            rate=WRITES,
        )
        for verb, summary in _HIDING
    ),
    Route(
        "GET",
        "/v1/jobs/{job_id}/audit",
        "submission",
        "jobs.read",
        "Read who did what to a job, newest first",
        query=PageQuery,
        answer=AuditPage,
    ),
    Route(
        "GET",
        "/v1/audit",
        "admin",
        "admin.read",
        "Read who did what, and why, newest first",
        query=AuditQuery,
        answer=AuditPage,
    ),
    Route(
        "GET",
        "/v1/dlq",
        "admin",
        "admin.read",
        "List dead jobs, newest first",
        query=PageQuery,
        answer=JobPage,
    ),
    Route(
        "POST",
        "/v1/dlq/{job_id}/replay",
        "admin",
        "admin.mutate",
        "Start a dead job again",
        action="replay",
        body=Because,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/dlq/{job_id}/dismiss",
        "admin",
        "admin.mutate",
        "Take a dead job off",
        action="dismiss",
        body=Because,
        answer=Job,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/queues/{queue}/requeue",
        "admin",
        "admin.mutate",
        "Send a fresh message for each job that waits, a page at a time",
        action="requeue",
        body=Because,
        query=WorkQuery,
        answer=Requeued,
        rate=SWEEPS,
    ),
    Route(
        "POST",
        "/v1/queues/{queue}/restart-failed",
        "admin",
        "admin.mutate",
        "Start each job that failed or is dead again, a page at a time",
        action="restart-failed",
        body=Because,
        query=WorkQuery,
        answer=Restarted,
        rate=SWEEPS,
    ),
    Route(
        "GET",
        "/v1/agents",
        "admin",
        "admin.read",
        "List agents",
        query=PageQuery,
        answer=AgentPage,
    ),
    Route(
        "GET",
        "/v1/agents/{agent}",
        "admin",
        "admin.read",
        "Read an agent and the jobs that it runs",
        answer=AgentDetail,
    ),
    Route(
        "GET",
        "/v1/conditions",
        "admin",
        "admin.read",
        "List conditions that jobs wait for",
        query=PageQuery,
        answer=ConditionPage,
    ),
    Route(
        "PUT",
        "/v1/conditions/{condition}",
        "admin",
        "admin.mutate",
        "Declare an application up or down",
        action="declare",
        body=Declaration,
        answer=AppView,
        rate=WRITES,
    ),
    Route(
        "POST",
        "/v1/agents/{agent}/drain",
        "admin",
        "admin.mutate",
        "Have an agent hand its jobs back and leave",
        action="drain",
        body=Because,
        answer=Drained,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
    ),
    Route(
        "GET",
        "/v1/queues",
        "admin",
        "admin.read",
        "List queues with the lengths of lanes",
        answer=QueuePage,
        rate=SWEEPS,
    ),
    Route("GET", "/v1/queues/{queue}", "admin", "admin.read", "Read a queue", answer=QueueView),
    Route(
        "GET",
        "/v1/queues/{queue}/settings",
        "admin",
        "admin.read",
        "Read the settings of a queue",
        answer=SettingsView,
    ),
    Route(
        "PUT",
        "/v1/queues/{queue}/settings",
        "admin",
        "admin.mutate",
        "Set the settings of a queue",
        action="settings",
        body=SettingsInput,
        answer=SettingsView,
        errors=(HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED),
        rate=WRITES,
    ),
    Route(
        "GET",
        "/v1/openapi.json",
        "admin",
        None,
        "Describe this API",
        answer=Contract,
    ),
    Route("GET", "/v1/health", "admin", None, "Say that the API is up", answer=Health),
    Route(
        "GET",
        "/v1/login",
        "admin",
        None,
        "Say where to log in, and as which client",
        answer=Login,
    ),
)

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
