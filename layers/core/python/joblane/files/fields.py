"""Fields of files that each submission has, whether it has files or not."""

from typing import Annotated, Final

from pydantic import StringConstraints

MAX_FILE_BYTES: Final = 5 * 1024**3
"""Largest input or output file: S3 takes no more in one PUT, and compares the SHA-256 of the whole
content in no other upload (docs/decisions/1611)."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A digest, hexadecimal in lower case."""
