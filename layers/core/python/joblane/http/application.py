"""The application of an HTTP function: its routes, the audit trail of their actions, and errors.

What a request says is in `joblane.http.current_request`.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from http import HTTPStatus
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger

from joblane.audit.records import Action, AuditRecord, encode_asked
from joblane.contract.access import ALL_ROLES, roles_for
from joblane.contract.audit import Because
from joblane.contract.models import LongBody
from joblane.contract.problems import (
    Defect,
    Forbidden,
    NotFound,
    Problem,
    TryAgain,
)
from joblane.contract.route import Route
from joblane.contract.strict_json import printable
from joblane.deployment.names import PLATFORM
from joblane.errors import Unavailable
from joblane.http.current_request import CurrentRequest
from joblane.http.parts import Parts
from joblane.http.statuses import status_of

if TYPE_CHECKING:  # many requests concern no job, and one function has no trail
    from joblane.service.audit.trail import Trail

Affected = Callable[[str, Mapping[str, str]], Collection[str]]
"""Takes an action and its target."""

Params = ParamSpec("Params")

PROBLEM_JSON = "application/problem+json"

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Strict-Transport-Security": "max-age=63072000",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer that does not set its own (OWASP REST Security Cheat Sheet).

No CORS header is sent, so no script of another origin can read an answer.
"""


@dataclass
class Application(CurrentRequest):
    """A Powertools resolver with problem+json, request ids and one log line a request."""

    logger: Logger
    trail: "Trail | None"
    """None for a function whose routes change nothing."""
    affected: Affected = lambda _action, _target: ()
    """Returns the tenants that an action of the role platform affects."""
    parts: Parts = field(default_factory=Parts)
    """What binds its routes, when they are first asked for."""
    routes: list[Route] = field(default_factory=list)
    """Those of the parts that are loaded, which may be bound; each has its scopes."""
    bound: list[Route] = field(default_factory=list)
    """Routes that have a handler."""

    def __post_init__(self) -> None:
        self.resolver.exception_handler(Exception)(self._defect)
        self.resolver.exception_handler(Problem)(self._answer)
        self.resolver.exception_handler(Unavailable)(self._aws_trouble)
        self.resolver.not_found(self._no_route)

    def handle(self, event: dict[str, Any], context: object) -> dict[str, Any]:
        """Answer one API Gateway event (payload format 2.0)."""
        request_id = event["requestContext"]["requestId"]
        self.parts.load(event["routeKey"])
        self.jobs.begin()
        self.logger.append_keys(request_id=request_id)
        answer = self.resolver.resolve(event, context)  # type: ignore[arg-type] # Powertools' own context type
        own = answer.get("headers") or {}
        answer["headers"] = {**SECURITY_HEADERS, **own, "X-Request-Id": request_id}
        self.logger.info(
            "request",
            route=event.get("routeKey"),
            status=answer["statusCode"],
            subject=self.claims(event).get("sub") or self.signer(event).get("userId"),
        )
        return answer

    def add(self, table: Iterable[Route]) -> None:
        """Add routes, so that they may be bound.

        Raises ValueError for one that changes something in a function without an audit trail.
        """
        routes = list(table)
        if self.trail is None and any(route.changes or route.action for route in routes):
            raise ValueError("routes that change something need an audit trail")
        self.routes += routes

    @property
    def _kept_trail(self) -> "Trail":
        """The audit trail of a function whose routes change something."""
        if self.trail is None:
            raise ValueError("this function has no audit trail")
        return self.trail

    def route(
        self, key: str
    ) -> Callable[[Callable[Params, Response[str]]], Callable[Params, Response[str]]]:
        """Bind a handler to one of the routes, such as `GET /v1/jobs/{job_id}`.

        The request's parameters are validated before the handler is called and are available from
        `parameters`. Raises KeyError for a route that no table has: it would have no scope.
        """
        route = next((route for route in self.routes if route.key == key), None)
        if route is None:
            raise KeyError(key)
        # Powertools has no parameter with slashes, but takes expressions.
        path = re.sub(r"{\w+\+}", ".+", route.path).replace("{", "<").replace("}", ">")

        def bind(handler: Callable[Params, Response[str]]) -> Callable[Params, Response[str]]:
            @wraps(handler)
            def admit_and_call(*args: Params.args, **kwargs: Params.kwargs) -> Response[str]:
                if route.scopes:
                    self._admit(route, kwargs)
                self._query = self._parameters(route.query)
                return self._record_and_call(route, kwargs, lambda: handler(*args, **kwargs))

            self.resolver.route(path, route.method)(admit_and_call)
            self.bound.append(route)
            return handler

        return bind

    def _record_and_call(
        self, route: Route, target: Mapping[str, object], call: Callable[[], Response[str]]
    ) -> Response[str]:
        """Record an action in the audit trail, then do it; record a refusal as well.

        An action of the role platform is recorded for each tenant that it affects, too. Raises
        what `call` raises, and Problem 400 and 413 for the body. See decision 0513.
        """
        if route.action is None:
            return call()
        body = self.read_action(route.body or Because, route.largest_body)
        query = self._query.model_dump(mode="json", exclude={"limit", "next"}, exclude_none=True)
        told = (
            body.for_trail()
            if isinstance(body, LongBody)
            else body.model_dump(
                mode="json", exclude={"reason", *route.unrecorded}, exclude_unset=True
            )
        )
        record = replace(
            self._record(route.action, target),
            reason=getattr(body, "reason", None) or None,
            asked_json=encode_asked({**query, **told}),
        )
        records = [record, *self._for_tenants(record)]
        for each in records:
            self._kept_trail.begin(each)
        try:
            return call()
        except Problem as problem:
            self._record_refusals(records, status_of(problem), problem.detail)
            raise
        except Exception:
            self._record_refusals(
                records, HTTPStatus.SERVICE_UNAVAILABLE, "it may have been done in part"
            )
            raise

    def _for_tenants(self, record: AuditRecord) -> list[AuditRecord]:
        """Return the record for the trail of each tenant that the role platform affects by it."""
        if not record.by_platform:
            return []
        tenants = self.affected(record.action, dict(record.target))
        return [replace(record, tenant=tenant) for tenant in sorted(tenants)]

    def _record(
        self, action: Action | Literal["submit"], target: Mapping[str, object]
    ) -> AuditRecord:
        """The request as the audit trail records it, without its body and parameters."""
        by = self.principal()
        job_id = target.get("job_id", target.get("group"))
        job = None if job_id is None else self.jobs.find(by.tenant, str(job_id))
        return AuditRecord(
            record_id=self._kept_trail.new_id(),
            tenant=by.tenant,
            action=action,
            who=by.who,
            by_platform=by.tenant == PLATFORM,
            target=tuple(sorted((name, printable(str(value))) for name, value in target.items())),
            request_id=self._request_id(),
            trace_id=None if job is None else job.trace_id,
        )

    def _record_refusals(
        self, records: Iterable[AuditRecord], status: HTTPStatus, detail: str
    ) -> None:
        for record in records:
            try:
                self._kept_trail.refuse(record, status, detail)
            except Unavailable as error:
                self._log_trouble(error)  # the record itself stands

    def _admit(self, route: Route, target: Mapping[str, object]) -> None:
        """Raise Problem 403 unless the caller has a scope of the route; record refused changes.

        API Gateway has checked the scopes of the token for routes that only read; the caller's
        role is checked here only (`joblane.contract.principal`).
        """
        who = self.principal()
        if not who.scopes.isdisjoint(route.scopes):
            return
        needed = f"the scope {' or '.join(route.scopes)}"
        has = "the token lacks it"
        if who.role and ALL_ROLES[who.role].isdisjoint(route.scopes):
            needed = f"the role {roles_for(route.scopes)}"
            has = f"the caller has the role {who.role}"
        detail = f"this needs {needed}; {has}"
        if route.changes:
            try:
                record = self._record(route.action or "submit", target)
                self._kept_trail.begin(record)
            except Unavailable as error:
                self._log_trouble(error)  # nothing is done, so the refusal need not wait
            else:
                self._record_refusals([record], HTTPStatus.FORBIDDEN, detail)
        raise Forbidden(detail)

    def _answer(self, problem: Problem) -> Response[str]:
        status = status_of(problem)
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": status.phrase,
            "status": int(status),
            "detail": problem.detail,
            "instance": self._request_id(),
        }
        if problem.errors:
            body["errors"] = [entry.model_dump() for entry in problem.errors]
        after = problem.retry_after_s
        headers = {} if after is None else {"Retry-After": str(after)}
        text = json.dumps(body | problem.members)
        return Response(int(status), PROBLEM_JSON, text, headers=headers)

    def _no_route(self, _error: Exception) -> Response[str]:
        return self._answer(NotFound("there is no such route"))

    def _log_trouble(self, error: Exception) -> None:
        """Log an error of AWS, which the answer does not repeat."""
        self.logger.error("aws call failed", error=str(error))

    def _defect(self, error: Exception) -> Response[str]:
        """Answer an unexpected error. Its message is not logged: it may contain values."""
        frames = extract_tb(error.__traceback__)
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]]
        self.logger.error("unexpected error", kind=type(error).__name__, where=where)
        return self._answer(
            Defect(
                "an internal error of Joblane; give the request id to your operators",
            )
        )

    def _aws_trouble(self, error: Exception) -> Response[str]:
        """Answer 503; the error of AWS is logged and not repeated."""
        self._log_trouble(error)
        return self._answer(
            TryAgain(
                "a service behind this API did not answer; try again in a moment",
            )
        )
