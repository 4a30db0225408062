"""Routes that submit ended jobs again."""

from http import HTTPStatus
from typing import Final

from joblane.contract.queries import SelectJobs
from joblane.contract.route import SWEEPS, Route
from joblane.contract.submissions import Resubmission, Submitted
from joblane.contract.views import (
    JobsResubmitted,
)
from joblane.job.spec import MAX_BODY_BYTES

_JOBS = "/v1/jobs"
_JOB = "/v1/jobs/{job_id}"

RESUBMISSION_ROUTES: Final = (
    Route(
        "resubmitJobs",
        "POST",
        f"{_JOBS}/resubmit",
        ("jobs.submit",),
        "Resubmit the ended jobs that filters select, a page at a time",
        JobsResubmitted,
        action="resubmit-jobs",
        body=Resubmission,
        largest_body=MAX_BODY_BYTES,
        query=SelectJobs,
        rate=SWEEPS,
    ),
    Route(
        "resubmitJob",
        "POST",
        f"{_JOB}/resubmit",
        ("jobs.submit",),
        "Resubmit an ended job under a new id",
        Submitted,
        action="resubmit",
        body=Resubmission,
        largest_body=MAX_BODY_BYTES,
        idempotent=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
)
