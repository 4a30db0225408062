"""The current request of an HTTP function: its caller, headers, parameters and body."""

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools.event_handler.api_gateway import APIGatewayHttpResolver
from pydantic import BaseModel, ValidationError

from joblane.contract.audit import Because
from joblane.contract.principal import Access, NotAdmitted, Principal, with_lists
from joblane.contract.problems import (
    CHANGED,
    Forbidden,
    TooLarge,
    VersionChanged,
    invalid,
    parse_model,
    wrong,
)
from joblane.contract.query import NoQuery, Query
from joblane.contract.route import MAX_ACTION_BYTES
from joblane.contract.strict_json import NotStrict, check, printable
from joblane.formats.times import rfc3339
from joblane.http.request_jobs import RequestJobs
from joblane.job.idempotency import IdempotencyKey, idempotency_key
from joblane.state.trace import TraceContext, parse_trace

if TYPE_CHECKING:  # many requests concern no job
    from joblane.job.head import Head

Model = TypeVar("Model", bound=BaseModel)
AQuery = TypeVar("AQuery", bound=Query)


@dataclass
class CurrentRequest:
    """Reads the request that the resolver has now. Raises Problem for what is wrong with it."""

    access: Access
    """Identifies the bearer of a token."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    jobs: RequestJobs
    _: KW_ONLY
    resolver: APIGatewayHttpResolver = field(default_factory=APIGatewayHttpResolver)
    _query: Query = field(default_factory=NoQuery)
    """Parameters of the request, once they are validated."""

    @staticmethod
    def claims(event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Claims of the token that API Gateway has verified; empty without a token."""
        authorizer = event["requestContext"].get("authorizer") or {}
        claims: Mapping[str, Any] = authorizer.get("jwt", {}).get("claims", {})
        return claims

    @staticmethod
    def signer(event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Who signed the request with an IAM role, as API Gateway says; empty with a token."""
        authorizer = event["requestContext"].get("authorizer") or {}
        identity: Mapping[str, Any] = authorizer.get("iam") or {}
        return identity

    def principal(self) -> Principal:
        """The caller. Raises Problem 403 if the token or IAM role belongs to no tenant."""
        try:
            return replace(self._identify(), request_id=self._request_id())
        except NotAdmitted as refusal:
            raise Forbidden(str(refusal)) from None

    def _identify(self) -> Principal:
        if signer := self.signer(self.resolver.current_event.raw_event):
            return self.access.holder(signer)
        claims = self.claims(self.resolver.current_event.raw_event)
        return self.access.principal(with_lists(claims, self.header("authorization")))

    def tenant(self) -> str:
        """The tenant of the caller."""
        return self.principal().tenant

    def job(self, job_id: str) -> "Head":
        """The caller's job of that id. Raises Problem 404 if its tenant has no such job."""
        return self.jobs.get(self.tenant(), job_id)

    def trace(self) -> TraceContext | None:
        """The trace context in the headers of this request; None if there is none."""
        return parse_trace(self.header("traceparent"), self.header("tracestate"))

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self.clock() * 1000)

    def describe_request(self, done: str, now_ms: int) -> str:
        """The reason for a timeline: `cancelled by machine ci at 2026-...`."""
        return f"{done} by {self.principal()} at {rfc3339(now_ms)}"

    def _parameters(self, model: type[Query]) -> Query:
        given = self.resolver.current_event.query_string_parameters
        if unknown := [name for name in given if name not in model.model_fields]:
            takes = ", ".join(model.model_fields) or "none"
            raise wrong(printable(unknown[0]), f"is unknown; this route takes {takes}")
        try:
            return model.model_validate(given)
        except ValidationError as error:
            raise invalid(error) from None

    def parameters(self, model: type[AQuery]) -> AQuery:
        """Query parameters of the request; `model` is the one of its route."""
        if not isinstance(self._query, model):
            raise TypeError(f"this route takes {type(self._query).__name__}")
        return self._query

    def read_action(self, model: type[Model], most: int = MAX_ACTION_BYTES) -> Model:
        """The body of an action, as `read`; one that only may have a reason may be left out."""
        if issubclass(model, Because) and not self.body(most):
            return parse_model(model, "{}")
        return self.read(model, most)

    def read(self, model: type[Model], most: int = MAX_ACTION_BYTES) -> Model:
        """The request's body as a model.

        Raises Problem 413 above `most` bytes, and 400 naming each wrong field.
        """
        text = self.body(most)
        try:
            check(text)
        except NotStrict as error:
            raise wrong("body", str(error)) from None
        return parse_model(model, text)

    def rest(self, prefix: str) -> str:
        """The rest of the path after the first `prefix`: a parameter with slashes.

        API Gateway has decoded it, but for `%25` (docs/decisions/1306).
        """
        path: str = self.resolver.current_event.path
        return path.partition(prefix)[2]

    def header(self, name: str) -> str | None:
        """A header of the request, by its name in lower case."""
        value: str | None = self.resolver.current_event.headers.get(name)
        return value

    def matches(self, head: "Head") -> bool:
        """Whether the caller named this version of the job by If-Match, as `matches_tag`."""
        from joblane.http.etags import etag  # many requests concern no job

        return self.matches_tag(etag(head))

    def matches_tag(self, etag: str) -> bool:
        """Whether the caller named this ETag by If-Match; False if none at all.

        Raises Problem 412 if it named others only.
        """
        given = self.header("if-match")
        if given is None or given.strip() == "*":
            return False
        if etag not in [tag.strip() for tag in given.split(",")]:
            raise VersionChanged(CHANGED)
        return True

    def idempotency_key(self) -> IdempotencyKey | None:
        """The Idempotency-Key of this request; None without one.

        The key is a string as the IETF's draft has it, `"8e03978e"`, or the same without the
        quotes, as most clients send it. Raises Problem 400 for anything else.
        """
        given = self.header("idempotency-key")
        if given is None:
            return None
        name = given[1:-1] if len(given) > 1 and given[0] == given[-1] == '"' else given
        if not re.fullmatch(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,255}", name) or name != name.strip():
            raise wrong(
                "Idempotency-Key",
                "must be 1 to 255 printable ASCII characters without quotes and backslashes",
            )
        event = self.resolver.current_event
        return idempotency_key(
            self.tenant(), name, (event.http_method, event.path, event.body or "")
        )

    def body(self, most: int = MAX_ACTION_BYTES) -> str:
        """The request's body as text; Problem 413 above `most` bytes."""
        event = self.resolver.current_event
        raw = event.body or ""
        size = len(raw) * 3 // 4 if event.is_base64_encoded else len(raw.encode())
        if size > most:
            raise TooLarge(
                f"the body has {size} bytes; at most {most} are allowed",
            )
        try:
            return event.decoded_body or ""
        except (binascii.Error, UnicodeDecodeError):
            raise wrong("body", "is not UTF-8 text") from None

    def _request_id(self) -> str:
        request_id: str = self.resolver.current_event.raw_event["requestContext"]["requestId"]
        return request_id
