"""Routes of the output files of jobs."""

from http import HTTPStatus
from typing import Final

from joblane.contract.output_files import OutputPage, OutputsQuery
from joblane.contract.route import Route

OUTPUT_ROUTES: Final = (
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
)
