"""Adapter for objects that expire some days after they were written, and are to live on."""

from enum import Enum, auto
from typing import TYPE_CHECKING

from joblane.aws.objects import unless_absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client


class Kept(Enum):
    """What became of an object."""

    FRESH = auto()
    """It was young enough."""
    COPIED = auto()
    """It was copied onto itself: its days begin anew."""
    ABSENT = auto()
    """It is not there."""


class KeptObjects:
    """Copies objects onto themselves. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def keep(self, key: str, written_before_s: float) -> Kept:
        """Copy an object onto itself if it was written before this time, in Unix seconds.

        One request, and one more for a copy. S3 copies an object of up to 5 GB onto itself if some
        header is given anew, which is its content type, as it is. The digest that it was uploaded
        with goes with it. Raises Unavailable.
        """
        client, bucket = self._client(), self._bucket
        found = unless_absent(lambda: client.head_object(Bucket=bucket, Key=key))
        if found is None:
            return Kept.ABSENT
        if found["LastModified"].timestamp() >= written_before_s:
            return Kept.FRESH
        copied = unless_absent(
            lambda: client.copy_object(
                Bucket=bucket,
                Key=key,
                CopySource=f"{bucket}/{key}",
                MetadataDirective="REPLACE",
                ContentType=found["ContentType"],
            )
        )
        return Kept.ABSENT if copied is None else Kept.COPIED
