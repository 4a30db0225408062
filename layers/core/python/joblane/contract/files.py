"""Files in the API: uploads of input files."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from joblane.contract.models import Body, LongBody, View
from joblane.contract.types import Upload
from joblane.files.fields import MAX_FILE_BYTES, Sha256

MAX_FILES: Final = 100
"""Most files of one request: each is one request to S3."""

MAX_FILES_BODY: Final = 16_384
"""Largest body of a request: 100 digests with their sizes, in readable JSON."""


class FileInput(Body):
    """A file that is to be uploaded."""

    sha256: Sha256
    """SHA-256 of its content, in hexadecimal digits."""
    size: Annotated[int, Field(ge=0, le=MAX_FILE_BYTES)]
    """Bytes, at most 5 GiB."""


class FilesInput(LongBody):
    """Body of `POST /v1/files`: files that are to be uploaded."""

    files: Annotated[tuple[FileInput, ...], Field(min_length=1, max_length=MAX_FILES)]
    """1 to 100 files."""

    def for_trail(self) -> Mapping[str, object]:
        """How many files, and their bytes."""
        return {"files": len(self.files), "bytes": sum(file.size for file in self.files)}


class FileUpload(View):
    """Whether a file is there, and else how to upload it."""

    sha256: str
    """SHA-256 of its content, in hexadecimal digits."""
    exists: bool
    """Whether the tenant has uploaded this file, and it is kept for at least half of
    `retention.files_days` from now."""
    upload: Upload | None
    """How to upload it; null if it exists."""


class FilesAnswer(View):
    """The answer of `POST /v1/files`."""

    files: tuple[FileUpload, ...]
    """One entry for each file, in order."""
