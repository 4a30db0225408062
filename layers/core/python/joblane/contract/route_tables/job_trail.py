"""The route of the audit trail of one job."""

from typing import Final

from joblane.contract.audit import AuditPage
from joblane.contract.query import PageQuery
from joblane.contract.route import Route

_JOB = "/v1/jobs/{job_id}"

JOB_TRAIL_ROUTES: Final = (
    Route(
        "listJobAudit",
        "GET",
        f"{_JOB}/audit",
        ("jobs.read",),
        "Read the audit trail of a job, newest first",
        AuditPage,
        query=PageQuery,
    ),
)
