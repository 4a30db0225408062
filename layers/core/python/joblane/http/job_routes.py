"""The routes that read jobs."""

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.queries import ListJobs
from joblane.contract.route_tables.jobs import JOB_ROUTES
from joblane.http.answers import listing, page_start, success
from joblane.http.application import Application
from joblane.http.etags import etag
from joblane.job.message import is_id
from joblane.service.job.read import JobViews
from joblane.service.job.search import JobSearch


def job_routes(app: Application, search: JobSearch, views: JobViews) -> None:
    """Bind the routes that read jobs."""
    app.add(JOB_ROUTES)

    @app.route("GET /v1/jobs")
    def jobs() -> Response[str]:
        query = app.parameters(ListJobs)
        before = page_start(query, is_id)
        heads, following = search.page(app.tenant(), query, before)
        return listing(views.show_many(heads), query, following)

    @app.route("GET /v1/jobs/{job_id}")
    def job(job_id: str) -> Response[str]:
        head = app.job(job_id)
        return success(views.show_whole(head), headers={"ETag": etag(head)})
