"""Routes that submit jobs, or say where one would go."""

from http import HTTPStatus
from typing import Final

from joblane.contract.queue_of_job import QueueChoice
from joblane.contract.route import SWEEPS, Route
from joblane.contract.submissions import BatchAnswer, Submitted
from joblane.job.spec import Batch, Submission

_JOBS = "/v1/jobs"

SUBMISSION_ROUTES: Final = (
    Route(
        "submitJob",
        "POST",
        _JOBS,
        ("jobs.submit",),
        "Submit a job",
        Submitted,
        body=Submission,
        idempotent=True,
        traced=True,
        status=HTTPStatus.ACCEPTED,
        coalesces=True,
    ),
    Route(
        "submitJobs",
        "POST",
        "/v1/jobs/batch",
        ("jobs.submit",),
        "Submit up to 100 jobs",
        BatchAnswer,
        body=Batch,
        idempotent=True,
        traced=True,
        rate=SWEEPS,
    ),
    Route(
        "explainQueue",
        "POST",
        "/v1/queues/explain",
        ("jobs.submit",),
        "Explain which queue would take a job; nothing is submitted",
        QueueChoice,
        body=Submission,
        reads=True,
    ),
)
