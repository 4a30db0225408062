"""The type of a route: path, function, scope, request and answers."""

from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final, Literal

from pydantic import BaseModel

from joblane.audit.records import Action
from joblane.contract.access import Scope
from joblane.contract.query import NoQuery, Query

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

FunctionName = Literal["submission", "admin", "status"]


MAX_ACTION_BYTES: Final = 4096
"""Largest body of an action: a reason, some settings."""


_OF_SUBMISSION: Final = ("/v1/jobs", "/v1/groups", "/v1/schedules", "/v1/queues/explain")

_OF_STATUS: Final = frozenset(
    {
        "/v1/fleets",
        "/v1/jobs/{job_id}/outputs",
        "/v1/jobs/{job_id}/outputs/{path+}",
        "/v1/jobs/{job_id}/why",
        "/v1/queues/{queue}/activity",
        "/v1/summary",
    }
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate limit of a route in API Gateway for all callers together; above it, answers are 429."""

    per_second: int
    burst: int
    """Requests that may arrive at once."""


USUAL: Final = Rate(200, 400)
"""The stage's default for each route."""

SWEEPS: Final = Rate(10, 20)
"""For requests that read or write up to a hundred jobs, or ask SQS twice for each lane.

An exception on the stage, as are all that follow. Before a deployment that removes such a route,
call `aws apigatewayv2 delete-route-settings` for it: CloudFormation leaves them on the stage."""

PUBLIC: Final = Rate(10, 20)
"""For routes without a token: anybody may send as many requests as this, and each is paid for
(decision 2123)."""

TOGETHER: Final = Rate(20, 400)
"""For those of them that are asked many times at once, and rarely: a browser loads a page in some
60 files, and hundreds of machines may start together."""

LARGE: Final = Rate(1, 20)
"""For those of them whose answer has hundreds of kilobytes: its transfer is what costs."""

FOLLOWING: Final = Rate(2000, 4000)
"""For output: one who follows a busy job asks up to eight times a second, and two hundred may
(decision 0511)."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path of the API, the scopes of which a caller needs one, and its contract."""

    operation: str
    """Its name: a verb and what it acts on (decision 1616)."""
    method: Method
    path: str
    """With `{parameters}` as API Gateway writes them; handlers take them by name. The last one may
    be the rest of the path, `{path+}`, which they get by `Application.rest`."""
    scopes: tuple[Scope, ...]
    """A caller needs one of them; none opens the route to anyone, with or without a token."""
    summary: str
    """One line: a verb and its object."""
    answer: type[BaseModel] | None
    """Body of a successful answer; None if it has none."""
    _: KW_ONLY
    action: Action | None = None
    """Its name in the audit trail; None for routes that change nothing, and for submissions: a job
    names its submitter itself (decision 0513)."""
    status: HTTPStatus = HTTPStatus.OK
    query: type[Query] = NoQuery
    body: type[BaseModel] | None = None
    """Body of the request; None if it has none. A `Because` is optional."""
    largest_body: int = MAX_ACTION_BYTES
    """Bytes of a body that the audit trail reads."""
    unrecorded: frozenset[str] = frozenset()
    """Fields of the body that are not in the audit trail: they are long, and stored elsewhere."""
    errors: tuple[HTTPStatus, ...] = ()
    """Errors besides those that `problems` derives, such as 409 where a job's state decides."""
    rate: Rate = USUAL
    idempotent: bool = False
    """Whether it takes an Idempotency-Key."""
    traced: bool = False
    """Whether it takes a trace context in its headers."""
    conditional: bool = False
    """Whether it takes If-Match."""
    coalesces: bool = False
    """Whether it may answer 200 with a job that is there, in place of a new one."""
    reads: bool = False
    """Whether it changes nothing although its method is POST: what it reads is in the body."""
    streams: bool = False
    """Whether it also answers Server-Sent Events, if the request's `Accept` names them."""

    @property
    def key(self) -> str:
        """API Gateway's route key: `GET /v1/jobs/{job_id}`."""
        return f"{self.method} {self.path}"

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it, which has no parameters with slashes."""
        return self.path.replace("+}", "}")

    @property
    def changes(self) -> bool:
        """Whether it changes something, so that a refusal is in the audit trail.

        API Gateway therefore lets any token of this API through to these routes: the function
        refuses those without the scope, and records that.
        """
        return bool(self.scopes) and self.method != "GET" and not self.reads

    @property
    def function(self) -> FunctionName:
        """The function behind it.

        `status` has what is read often and changes nothing, `submission` the jobs and
        their schedules, and `admin` all other paths.
        """
        if self.path in _OF_STATUS:
            return "status"
        return "submission" if self.path.startswith(_OF_SUBMISSION) else "admin"

    @property
    def problems(self) -> tuple[HTTPStatus, ...]:
        """Every status that this route answers besides success."""
        found = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, *self.errors}
        found |= {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
        if self.scopes:
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
