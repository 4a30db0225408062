"""The routes of schedules."""

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.audit import Because
from joblane.contract.problems import Invalid
from joblane.contract.query import PageQuery
from joblane.contract.route_tables.schedules import SCHEDULE_ROUTES
from joblane.contract.schedules import (
    MAX_SCHEDULE_BYTES,
    BackfillInput,
    PreviewInput,
    ScheduleEdit,
    ScheduleInput,
    ScheduleView,
)
from joblane.deployment.names import is_name
from joblane.http.answers import listing, page_start, success
from joblane.http.application import Application
from joblane.service.schedule.show import show_result

if TYPE_CHECKING:  # few requests are about these
    from collections.abc import Callable

    from joblane.service.schedule.backfill import Backfill
    from joblane.service.schedule.results import Results
    from joblane.service.schedule.schedules import Schedules

RUN_S = 20.0
"""Seconds that a run may take: a requeue goes through many pages."""


def schedule_routes(
    app: Application,
    schedules: "Schedules",
    results: "Results",
    backfill: "Callable[[], Backfill]",
) -> None:
    """Bind the routes of schedules."""
    app.add(SCHEDULE_ROUTES)
    _bind_reads(app, schedules, results)
    _bind_changes(app, schedules)
    _bind_starts(app, schedules, backfill)


def _bind_changes(app: Application, schedules: "Schedules") -> None:
    @app.route("POST /v1/schedules")
    def create() -> Response[str]:
        view = schedules.create(app.principal(), app.read(ScheduleInput, MAX_SCHEDULE_BYTES))
        return _answer(view, HTTPStatus.CREATED, {"Location": f"/v1/schedules/{view.name}"})

    @app.route("PATCH /v1/schedules/{schedule}")
    def edit(schedule: str) -> Response[str]:
        by = app.principal()
        patch = app.read(ScheduleEdit, MAX_SCHEDULE_BYTES)
        found, _ = schedules.find(by.tenant, schedule)
        exact = app.matches_tag(_etag(found.version))
        if not patch.model_fields_set - {"reason"}:
            raise Invalid("give at least one field to change")
        return _answer(schedules.edit(by, found, patch, exact=exact))

    @app.route("DELETE /v1/schedules/{schedule}")
    def delete(schedule: str) -> Response[str]:
        schedules.delete(app.tenant(), schedule)
        return Response(int(HTTPStatus.NO_CONTENT), body="")

    @app.route("POST /v1/schedules/{schedule}/pause")
    def pause(schedule: str) -> Response[str]:
        reason = app.read_action(Because).reason
        return _answer(schedules.pause(app.principal(), schedule, reason))

    @app.route("POST /v1/schedules/{schedule}/resume")
    def resume(schedule: str) -> Response[str]:
        return _answer(schedules.resume(app.principal(), schedule))


def _bind_reads(app: Application, schedules: "Schedules", results: "Results") -> None:
    @app.route("POST /v1/schedules/preview")
    def preview() -> Response[str]:
        return success(schedules.preview(app.tenant(), app.read(PreviewInput)))

    @app.route("GET /v1/schedules")
    def page() -> Response[str]:
        query = app.parameters(PageQuery)
        after = page_start(query, is_name)
        found, following = schedules.page(app.tenant(), limit=query.limit, after=after)
        return listing(found, query, following)

    @app.route("GET /v1/schedules/{schedule}")
    def one(schedule: str) -> Response[str]:
        return _answer(schedules.show(*schedules.find(app.tenant(), schedule)))

    @app.route("GET /v1/schedules/{schedule}/results")
    def list_results(schedule: str) -> Response[str]:
        query = app.parameters(PageQuery)
        before = page_start(query, _is_place)
        found, _ = schedules.find(app.tenant(), schedule)
        page_of, following = results.page(found, limit=query.limit, before=before)
        return listing([show_result(found, each) for each in page_of], query, following)


def _bind_starts(
    app: Application, schedules: "Schedules", backfill: "Callable[[], Backfill]"
) -> None:
    @app.route("POST /v1/schedules/{schedule}/run")
    def run(schedule: str) -> Response[str]:
        end_s = app.clock() + RUN_S
        result = schedules.run(app.principal(), schedule, lambda: end_s - app.clock())
        return success(result, HTTPStatus.ACCEPTED)

    @app.route("POST /v1/schedules/{schedule}/backfill")
    def fill(schedule: str) -> Response[str]:
        given = app.read(BackfillInput)
        return success(backfill().run(app.principal(), schedule, given), HTTPStatus.ACCEPTED)


def _answer(
    view: ScheduleView, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response[str]:
    return success(view, status, {**(headers or {}), "ETag": _etag(view.version)})


def _etag(version: int) -> str:
    return f'"{version:016x}"'


def _is_place(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,8}:[0-9]{1,4}", text) is not None
