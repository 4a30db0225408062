"""The routes of conditions: what blocks a tenant's jobs, and its applications up or down."""

from collections.abc import Callable, Mapping
from urllib.parse import unquote

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.answers import listing, place, success
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
from joblane.problems import wrong
from joblane.queries import PageQuery
from joblane.views import AppView, ConditionView
from joblane.web import Application

MAX_DECLARATION_BYTES = 4096


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
        query = app.parameters(PageQuery)
        after = place(query, _is_condition)
        found, following = conditions.page(app.tenant(), query.limit, after)
        return listing(found, query, following)

    @app.route("PUT /v1/conditions/{condition}")
    def declare(condition: str) -> Response[str]:
        tenant = app.tenant()
        name = unquote(condition)
        try:
            kind = parse(name).kind
        except ValueError as error:
            raise wrong("condition", str(error)) from None
        if kind != "app" or unscoped(name) != name:
            problem = "must be app: and the name of an application; the other kinds are tested"
            raise wrong("condition", problem)
        declared = app.read(Declaration, MAX_DECLARATION_BYTES)
        asked = app.asked(f"declared {declared.state}", conditions.now_ms())
        why = f"{declared.reason} ({asked})" if declared.reason else asked
        return success(conditions.declare(tenant, name, declared, why))


def _is_condition(name: str) -> bool:
    try:
        parse(name)
    except ValueError:
        return False
    return True
