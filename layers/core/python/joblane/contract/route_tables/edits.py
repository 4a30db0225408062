"""The route that edits a job which waits."""

from http import HTTPStatus
from typing import Final

from joblane.contract.edits import Edited, EditJob
from joblane.contract.route import Route

_JOB = "/v1/jobs/{job_id}"

EDIT_ROUTES: Final = (
    Route(
        "editJob",
        "PATCH",
        _JOB,
        ("jobs.submit",),
        "Edit a job that waits",
        Edited,
        action="edit",
        body=EditJob,
        errors=(HTTPStatus.CONFLICT,),
        conditional=True,
    ),
)
