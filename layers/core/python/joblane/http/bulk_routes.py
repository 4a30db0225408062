"""The routes that change all jobs of a queue, a page at a time."""

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.audit import Restart
from joblane.contract.cursors import is_job_or_members
from joblane.contract.operator_queries import WorkQuery
from joblane.contract.route_tables.bulk import BULK_ROUTES
from joblane.http.answers import answer_sweep, page_start
from joblane.http.application import Application
from joblane.service.job.bulk import (
    BulkOperations,
    is_restart_cursor,
)


def bulk_routes(app: Application, bulk: BulkOperations) -> None:
    """Bind the routes that requeue and restart jobs, a page at a time."""
    app.add(BULK_ROUTES)

    @app.route("POST /v1/queues/{queue}/requeue")
    def requeue(queue: str) -> Response[str]:
        query = app.parameters(WorkQuery)
        before = page_start(query, is_job_or_members)
        selection = bulk.selection(app.tenant(), queue, query.type)
        result = bulk.requeue(selection, app.now_ms(), limit=query.limit, before=before)
        return answer_sweep("requeued", result, query)

    @app.route("POST /v1/queues/{queue}/restart-failed")
    def restart_failed(queue: str) -> Response[str]:
        query = app.parameters(WorkQuery)
        after = page_start(query, is_restart_cursor)
        selection = bulk.selection(app.tenant(), queue, query.type)
        at_ms = app.now_ms()
        result = bulk.restart_failed(
            selection,
            app.describe_request("restarted", at_ms),
            at_ms,
            limit=query.limit,
            after=after,
            same_version=app.read_action(Restart).same_version,
        )
        return answer_sweep("restarted", result, query)
