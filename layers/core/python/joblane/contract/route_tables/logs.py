"""The route of a job's output."""

from http import HTTPStatus
from typing import Final

from joblane.contract.queries import LogQuery
from joblane.contract.route import FOLLOWING, Route
from joblane.contract.views import (
    LogPage,
)

_JOB = "/v1/jobs/{job_id}"

LOG_ROUTES: Final = (
    Route(
        "getJobLogs",
        "GET",
        f"{_JOB}/logs",
        ("jobs.read",),
        "Read a job's output",
        LogPage,
        query=LogQuery,
        errors=(HTTPStatus.CONFLICT,),
        rate=FOLLOWING,
        streams=True,
    ),
)
