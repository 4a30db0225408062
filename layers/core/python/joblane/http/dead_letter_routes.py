"""The routes of dead jobs, and of bulk operations on jobs."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.audit import Restart
from joblane.contract.job import job_view
from joblane.contract.operator_queries import SelectDead
from joblane.contract.query import PageQuery
from joblane.contract.route_tables.dead_letters import DEAD_LETTER_ROUTES
from joblane.http.answers import answer_sweep, listing, page_start, require_filter, success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.job.message import is_id
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.job.operations import Operations
from joblane.service.job.read import JobReader
from joblane.state.lifecycle import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from joblane.service.job.selected_dead import SelectedDead


def dead_letter_routes(
    app: Application, reader: JobReader, operations: Operations, limits: LimitCheck
) -> None:
    """Bind the routes that list, replay and dismiss dead jobs."""
    app.add(DEAD_LETTER_ROUTES)

    @app.route("GET /v1/dlq")
    def dead() -> Response[str]:
        query = app.parameters(PageQuery)
        before = page_start(query, is_id)
        heads, following = reader.read_dead(app.tenant(), query.limit, before)
        return listing((job_view(head) for head in heads), query, following)

    @app.route("POST /v1/dlq/{job_id}/replay")
    def replay(job_id: str) -> Response[str]:
        head, at_ms = app.job(job_id), app.now_ms()
        why = app.describe_request("replayed", at_ms)
        exact = app.matches(head)
        same = app.read_action(Restart).same_version
        limits.require(app.tenant())
        with conflicts(exact=exact):
            head = operations.restart(
                head, Event.REPLAY, why, at_ms, exact=exact, same_version=same
            )
        return success(job_view(head), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/dlq/{job_id}/dismiss")
    def dismiss(job_id: str) -> Response[str]:
        head, at_ms = app.job(job_id), app.now_ms()
        why = app.describe_request("dismissed", at_ms)
        exact = app.matches(head)
        with conflicts(exact=exact):
            head = operations.decide(head, Event.DISMISS, why, at_ms, exact=exact)
        return success(job_view(head))


def selected_dead_routes(
    app: Application, limits: LimitCheck, selected: "Callable[[], SelectedDead]"
) -> None:
    """Bind the routes that replay and dismiss dead jobs that filters select, a page at a time."""

    @app.route("POST /v1/dlq/replay")
    def replay() -> Response[str]:
        wanted, now_ms = app.parameters(SelectDead), app.now_ms()
        require_filter(wanted)
        after, tenant = page_start(wanted, is_id), app.tenant()
        limits.require(tenant)
        why = app.describe_request("replayed", now_ms)
        same = app.read_action(Restart).same_version
        result = selected().replay(tenant, wanted, why, now_ms, after, same_version=same)
        limits.note(tenant, result.done - 1)
        return answer_sweep("replayed", result, wanted)

    @app.route("POST /v1/dlq/dismiss")
    def dismiss() -> Response[str]:
        wanted, now_ms = app.parameters(SelectDead), app.now_ms()
        require_filter(wanted)
        after = page_start(wanted, is_id)
        why = app.describe_request("dismissed", now_ms)
        result = selected().dismiss(app.tenant(), wanted, why, now_ms, after)
        return answer_sweep("dismissed", result, wanted)
