"""Downloads of stored objects, piece by piece, with their size known before the first byte."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.errors import translated
from joblane.aws.objects import unless_absent
from joblane.errors import Failure

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_CHUNK = 1 << 20


class ObjectGone(Failure):
    """There is no such object; the text names it."""


@dataclass(frozen=True, slots=True)
class Download:
    """An object that is being read."""

    size: int
    """Bytes of the object."""
    chunks: Iterator[bytes]
    """Its content in pieces; raises Unavailable if the connection breaks."""


def open_object(client: "S3Client", bucket: str, key: str) -> Download:
    """Begin to read an object; the caller checks its digest. One request.

    Raises ObjectGone, Unavailable.
    """
    answer = unless_absent(lambda: client.get_object(Bucket=bucket, Key=key))
    if answer is None:
        raise ObjectGone(f"s3://{bucket}/{key}")
    fetch = translated(answer["Body"].read)
    return Download(answer["ContentLength"], iter(lambda: fetch(_CHUNK), b""))
