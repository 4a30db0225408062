"""Routes that show what goes on, behind `status`: they change nothing and are read often."""

from http import HTTPStatus
from typing import Final

from joblane.contract.output_files import OutputPage, OutputsQuery
from joblane.contract.route import SWEEPS, Route
from joblane.contract.status import ActivityQuery, FleetPage, QueueActivity, Summary
from joblane.contract.why import Why

STATUS_ROUTES: Final = (
    Route(
        "getSummary",
        "GET",
        "/v1/summary",
        ("jobs.read", "platform.read"),
        "Show the caller, its jobs and limits, and the agents of its queues",
        Summary,
    ),
    Route(
        "explainJob",
        "GET",
        "/v1/jobs/{job_id}/why",
        ("jobs.read",),
        "Explain why a job waits, runs on or has ended",
        Why,
    ),
    Route(
        "listJobOutputs",
        "GET",
        "/v1/jobs/{job_id}/outputs",
        ("jobs.read",),
        "List the output files of a job",
        OutputPage,
        query=OutputsQuery,
    ),
    Route(
        "downloadJobOutput",
        "GET",
        "/v1/jobs/{job_id}/outputs/{path+}",
        ("jobs.read",),
        "Download an output file of a job: a redirect to S3",
        None,
        status=HTTPStatus.FOUND,
    ),
    Route(
        "getQueueActivity",
        "GET",
        "/v1/queues/{queue}/activity",
        ("jobs.read", "platform.read"),
        "Show the activity of a queue over time",
        QueueActivity,
        query=ActivityQuery,
    ),
    Route(
        "listFleets",
        "GET",
        "/v1/fleets",
        ("platform.read",),
        "List fleets with the state and activities of their groups",
        FleetPage,
        rate=SWEEPS,
    ),
)
