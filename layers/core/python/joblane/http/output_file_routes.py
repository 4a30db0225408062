"""The routes of the output files of jobs."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.route_tables.outputs import OUTPUT_ROUTES
from joblane.http.answers import next_cursor, page_start, success
from joblane.http.application import Application

if TYPE_CHECKING:  # most requests concern no files
    from collections.abc import Callable

    from joblane.service.files.outputs import OutputFiles


def output_file_routes(app: Application, outputs: "Callable[[], OutputFiles]") -> None:
    """Bind the routes of output files; `outputs` is made when it is first asked for."""
    app.add(OUTPUT_ROUTES)

    @app.route("GET /v1/jobs/{job_id}/outputs")
    def list_outputs(job_id: str) -> Response[str]:
        from joblane.contract.output_files import OutputsQuery
        from joblane.service.files.outputs import Position, is_position

        query = app.parameters(OutputsQuery)
        at = page_start(query, is_position)
        place = None if at is None else Position.decode(at)
        page, following = outputs().page(app.job(job_id), query.limit, place, links=query.links)
        cursor = next_cursor(query, None if following is None else following.encode())
        return success(page.model_copy(update={"next": cursor}))

    @app.route("GET /v1/jobs/{job_id}/outputs/{path+}")
    def one(job_id: str) -> Response[str]:
        link = outputs().link(app.job(job_id), app.rest("/outputs/"))
        # The link expires, so that nobody may keep the redirect.
        headers = {"Location": link, "Cache-Control": "no-store"}
        return Response(int(HTTPStatus.FOUND), body="", headers=headers)
