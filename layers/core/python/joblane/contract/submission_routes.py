"""The routes of function `submission`: jobs, as their owners submit, read and change them."""

from http import HTTPStatus
from typing import Final

from joblane.audit.records import Action
from joblane.contract.audit import AuditPage, Because
from joblane.contract.job import Cancelled, Job
from joblane.contract.queries import ListJobs, LogQuery, PageQuery
from joblane.contract.route import SWEEPS, WRITES, Route
from joblane.contract.views import (
    BatchAnswer,
    JobPage,
    LogPage,
)
from joblane.job.spec import Batch, Submission

_HIDING: Final[tuple[tuple[Action, str], ...]] = (
    ("hide", "Hide an ended job from lists"),
    ("unhide", "Show a hidden job in lists again"),
)

SUBMISSION_ROUTES: Final = (
    Route(
        "POST",
        "/v1/jobs",
        "submission",
        "jobs.submit",
        "Submit a job",
        body=Submission,
        idempotent=True,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        rate=WRITES,
    ),
    Route(
        "POST",
        "/v1/jobs/batch",
        "submission",
        "jobs.submit",
        "Submit up to 100 jobs",
        body=Batch,
        idempotent=True,
        answer=BatchAnswer,
        rate=SWEEPS,
    ),
    Route(
        "GET",
        "/v1/jobs",
        "submission",
        "jobs.read",
        "List jobs, newest first",
        query=ListJobs,
        answer=JobPage,
    ),
    Route("GET", "/v1/jobs/{job_id}", "submission", "jobs.read", "Show a job", answer=Job),
    Route(
        "GET",
        "/v1/jobs/{job_id}/logs",
        "submission",
        "jobs.read",
        "Read a job's output",
        query=LogQuery,
        answer=LogPage,
        streams=True,
    ),
    Route(
        "DELETE",
        "/v1/jobs/{job_id}",
        "submission",
        "jobs.cancel",
        "Delete a job",
        action="delete",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/cancel",
        "submission",
        "jobs.cancel",
        "Cancel a job; a running job is stopped",
        action="cancel",
        body=Because,
        answer=Cancelled,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/retry",
        "submission",
        "jobs.submit",
        "Retry a failed or dead job",
        action="retry",
        body=Because,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        errors=(HTTPStatus.CONFLICT,),
        rate=WRITES,
        conditional=True,
    ),
    Route(
        "POST",
        "/v1/jobs/{job_id}/resubmit",
        "submission",
        "jobs.submit",
        "Resubmit an ended job under a new id",
        action="resubmit",
        body=Because,
        idempotent=True,
        answer=Job,
        status=HTTPStatus.ACCEPTED,
        rate=WRITES,
    ),
    *(
        Route(
            "POST",
            f"/v1/jobs/{{job_id}}/{verb}",
            "submission",
            "jobs.cancel",
            summary,
            action=verb,
            body=Because,
            answer=Job,
            errors=(HTTPStatus.CONFLICT,),
            rate=WRITES,
        )
        for verb, summary in _HIDING
    ),
    Route(
        "GET",
        "/v1/jobs/{job_id}/audit",
        "submission",
        "jobs.read",
        "Read the audit trail of a job, newest first",
        query=PageQuery,
        answer=AuditPage,
    ),
)
