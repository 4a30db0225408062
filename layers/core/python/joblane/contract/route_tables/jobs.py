"""Routes that read jobs."""

from typing import Final

from joblane.contract.job import Job
from joblane.contract.queries import ListJobs
from joblane.contract.route import Route
from joblane.contract.views import (
    JobPage,
)

_JOBS = "/v1/jobs"
_JOB = "/v1/jobs/{job_id}"

JOB_ROUTES: Final = (
    Route(
        "listJobs", "GET", _JOBS, ("jobs.read",), "List jobs, newest first", JobPage, query=ListJobs
    ),
    Route("getJob", "GET", _JOB, ("jobs.read",), "Show a job", Job),
)
