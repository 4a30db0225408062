"""The routes of conditions: what blocks a tenant's jobs, and its applications up or down."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Literal
from urllib.parse import unquote

from aws_lambda_powertools.event_handler.api_gateway import Response
from pydantic import BaseModel, ValidationError

from joblane.aws.directory import AppStore, Directory, Listed
from joblane.conditions import (
    DEFAULT_POLICY,
    MOST_S,
    AnyPolicy,
    Declaration,
    parse,
    scoped,
    unscoped,
)
from joblane.head import rfc3339
from joblane.model import field_problems
from joblane.web import (
    Application,
    Problem,
    decode_cursor,
    encode_cursor,
    listing,
    page_limit,
    success,
    wrong,
)

MAX_DECLARATION_BYTES = 4096


class ConditionView(BaseModel):
    """A condition that jobs of the caller's tenant wait for, as the API answers it."""

    name: str
    kind: str
    since_at: str
    """When the tenant's job that waits longest was blocked."""
    waiting: int
    """How many of the tenant's jobs wait, among the hundred that have waited longest."""
    more: bool
    """Whether more jobs wait than those hundred, so that `waiting` is the least it can be."""
    reason: str
    """What the last test saw."""
    tests: int
    """How often it was tested since a job was last let go for the first time."""
    next_test_at: str | None
    """When it is tested next; absent until its execution has begun."""
    policy: str
    gives_up_at: str
    """When the job that waits longest fails, if the condition still blocks then."""


class AppView(BaseModel):
    """What is declared of an application."""

    name: str
    state: Literal["up", "down"]
    reason: str
    until_at: str | None
    """When a declaration that it is down ends by itself."""


class Conditions:
    """What the routes do, over the stores they are handed."""

    def __init__(
        self,
        directory: Directory,
        apps: AppStore,
        policies: Mapping[str, AnyPolicy],
        clock: Callable[[], float],
    ) -> None:
        self._directory = directory
        self._apps = apps
        self._policies = policies
        self._clock = clock

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self._clock() * 1000)

    def page(
        self, tenant: str, limit: int, after: str | None
    ) -> tuple[list[ConditionView], str | None]:
        """Read a page of the conditions that a tenant's jobs wait for."""
        listed, following = self._directory.page(tenant, limit=limit, after=after)
        return [self._condition(entry) for entry in listed], following

    def declare(self, tenant: str, name: str, declared: Declaration, why: str) -> AppView:
        """Declare an application of a tenant up or down."""
        app = parse(scoped(name, tenant)).parameter
        if declared.state == "up":
            self._apps.declare_up(app)
            return AppView(name=name, state="up", reason=why, until_at=None)
        until_s = int(self._clock()) + MOST_S
        self._apps.declare_down(app, why, until_s)
        return AppView(name=name, state="down", reason=why, until_at=rfc3339(until_s * 1000))

    def _condition(self, entry: Listed) -> ConditionView:
        row = entry.row
        kind = row.condition.partition(":")[0]
        policy = self._policies.get(kind, DEFAULT_POLICY)
        return ConditionView(
            name=unscoped(row.condition),
            kind=kind,
            since_at=rfc3339(entry.first_ms),
            waiting=entry.waiting,
            more=entry.more,
            reason=row.why,
            tests=row.tests,
            next_test_at=None if row.next_ms is None else rfc3339(row.next_ms),
            policy=policy.policy,
            gives_up_at=rfc3339(entry.first_ms + policy.most_s * 1000),
        )


def condition_routes(app: Application, conditions: Conditions) -> None:
    """Bind the routes of conditions."""

    @app.route("GET /v1/conditions")
    def listed() -> Response[str]:
        query = app.query("limit", "next")
        limit = page_limit(query.get("limit"))
        after = decode_cursor(query.get("next"), _is_condition)
        found, following = conditions.page(app.tenant(), limit, after)
        return listing(found, limit, encode_cursor(following) if following else None)

    @app.route("PUT /v1/conditions/{condition}")
    def declare(condition: str) -> Response[str]:
        app.query()
        tenant = app.tenant()
        name = unquote(condition)
        try:
            kind = parse(name).kind
        except ValueError as error:
            raise wrong("condition", str(error)) from None
        if kind != "app" or unscoped(name) != name:
            problem = "must be app: and the name of an application; the other kinds are tested"
            raise wrong("condition", problem)
        try:
            declared = Declaration.model_validate_json(app.body(MAX_DECLARATION_BYTES))
        except ValidationError as error:
            problems = field_problems(error)
            detail = "; ".join(f"{p.field}: {p.problem}" for p in problems)
            raise Problem(HTTPStatus.BAD_REQUEST, detail, problems) from None
        asked = app.asked(f"declared {declared.state}", conditions.now_ms())
        why = f"{declared.reason} ({asked})" if declared.reason else asked
        return success(conditions.declare(tenant, name, declared, why))


def _is_condition(name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True
