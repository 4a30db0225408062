"""The route that prepares uploads of input files."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.route_tables.uploads import UPLOAD_ROUTES
from joblane.http.answers import success
from joblane.http.application import Application

if TYPE_CHECKING:  # most requests concern no files
    from joblane.service.files.uploads import FileUploads


def upload_route(app: Application, uploads: "FileUploads") -> None:
    """Bind the route of uploads."""
    app.add(UPLOAD_ROUTES)

    @app.route("POST /v1/files")
    def files() -> Response[str]:
        from joblane.contract.files import (  # a part of the table of this function
            MAX_FILES_BODY,
            FilesAnswer,
            FilesInput,
        )

        wanted = app.read(FilesInput, MAX_FILES_BODY)
        return success(FilesAnswer(files=uploads.prepare(app.tenant(), wanted.files)))
