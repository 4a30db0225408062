"""The route that prepares uploads of input files."""

from typing import Final

from joblane.contract.files import MAX_FILES_BODY, FilesAnswer, FilesInput
from joblane.contract.route import Route

UPLOAD_ROUTES: Final = (
    Route(
        "prepareFiles",
        "POST",
        "/v1/files",
        ("jobs.submit",),
        "Prepare uploads of up to 100 input files",
        FilesAnswer,
        action="upload-files",
        body=FilesInput,
        largest_body=MAX_FILES_BODY,
    ),
)
