"""The routes of the audit trail: of a tenant, and of one job."""

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.audit.records import submission_record
from joblane.aws.audit import TrailQuery
from joblane.contract.audit import entry_view
from joblane.contract.problems import NotFound
from joblane.contract.queries import AuditQuery
from joblane.contract.query import PageQuery
from joblane.contract.route_tables.job_trail import JOB_TRAIL_ROUTES
from joblane.contract.route_tables.trail import TRAIL_ROUTES
from joblane.formats.ids import first_id
from joblane.formats.times import unix_ms
from joblane.http.answers import listing, page_start
from joblane.http.application import Application
from joblane.job.message import is_id
from joblane.service.audit.trail import Trail


def trail_route(app: Application, trail: Trail) -> None:
    """Bind the route of a tenant's trail."""
    app.add(TRAIL_ROUTES)

    @app.route("GET /v1/audit")
    def audit() -> Response[str]:
        query = app.parameters(AuditQuery)
        before, until = page_start(query, is_id), _first(query.until)
        if until is not None and (before is None or until < before):
            before = until
        wanted = TrailQuery(query.limit, before, _first(query.since), query.action)
        found, following = trail.of_tenant(app.tenant(), wanted)
        return listing(map(entry_view, found), query, following)


def job_trail_route(app: Application, trail: Trail) -> None:
    """Bind the route of a job's trail."""
    app.add(JOB_TRAIL_ROUTES)

    @app.route("GET /v1/jobs/{job_id}/audit")
    def audit(job_id: str) -> Response[str]:
        query = app.parameters(PageQuery)
        before = page_start(query, is_id)
        tenant = app.tenant()
        head = app.jobs.find(tenant, job_id)
        submitted = None
        if head is not None:
            submitted = submission_record(head, tenant, head.submitted_by, head.request_id)
        found, following = trail.of_job(tenant, job_id, TrailQuery(query.limit, before), submitted)
        if head is None and before is None and not found:
            raise NotFound("there is no such job")
        return listing(map(entry_view, found), query, following)


def _first(moment: str | None) -> str | None:
    """The lowest record id of a time."""
    return None if moment is None else first_id(unix_ms(moment))
