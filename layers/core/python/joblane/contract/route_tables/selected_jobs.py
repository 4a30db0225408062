"""Routes that change the jobs which filters select, a page at a time."""

from typing import Final

from joblane.contract.audit import Restart
from joblane.contract.queries import SelectJobs
from joblane.contract.route_kinds import sweep
from joblane.contract.views import (
    JobsCancelled,
    JobsDeleted,
    JobsRetried,
)

_JOBS = "/v1/jobs"

SELECTED_JOBS_ROUTES: Final = (
    sweep(
        "cancelJobs",
        f"{_JOBS}/cancel",
        "cancel-jobs",
        "jobs.cancel",
        "Cancel the jobs that filters select, a page at a time",
        JobsCancelled,
        SelectJobs,
    ),
    sweep(
        "retryJobs",
        f"{_JOBS}/retry",
        "retry-jobs",
        "jobs.submit",
        "Retry the failed and dead jobs that filters select, a page at a time",
        JobsRetried,
        SelectJobs,
        body=Restart,
    ),
    sweep(
        "deleteJobs",
        f"{_JOBS}/delete",
        "delete-jobs",
        "jobs.cancel",
        "Delete the jobs that filters select, a page at a time",
        JobsDeleted,
        SelectJobs,
    ),
)
