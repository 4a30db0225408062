"""Downloads of stored objects, piece by piece, with their size known before the first byte."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.signed_uploads import ABSENT
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
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in ABSENT:
            raise ObjectGone(f"s3://{bucket}/{key}") from None
        raise
    return Download(answer["ContentLength"], answer["Body"].iter_chunks(_CHUNK))
