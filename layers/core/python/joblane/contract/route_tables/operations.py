"""Routes with which a job's owner stops, restarts, hides or deletes it."""

from http import HTTPStatus
from typing import Final

from joblane.contract.audit import Because, Restart
from joblane.contract.job import Job
from joblane.contract.route import Route
from joblane.contract.route_kinds import change
from joblane.contract.submissions import Cancelled

_JOB = "/v1/jobs/{job_id}"

OPERATION_ROUTES: Final = (
    Route(
        "deleteJob",
        "DELETE",
        _JOB,
        ("jobs.cancel",),
        "Delete a job",
        None,
        action="delete",
        body=Because,
        status=HTTPStatus.NO_CONTENT,
        errors=(HTTPStatus.CONFLICT,),
        conditional=True,
    ),
    change(
        "cancelJob",
        _JOB,
        "cancel",
        "jobs.cancel",
        "Cancel a job; a running job is stopped",
        Cancelled,
    ),
    change(
        "retryJob", _JOB, "retry", "jobs.submit", "Retry a failed or dead job", Job, body=Restart
    ),
    change(
        "hideJob",
        _JOB,
        "hide",
        "jobs.cancel",
        "Hide an ended job from lists",
        Job,
        status=HTTPStatus.OK,
        conditional=False,
    ),
    change(
        "unhideJob",
        _JOB,
        "unhide",
        "jobs.cancel",
        "Show a hidden job in lists again",
        Job,
        status=HTTPStatus.OK,
        conditional=False,
    ),
)
