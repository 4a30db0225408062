"""Calls of S3 that several adapters make."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from botocore.exceptions import ClientError

from joblane.aws.errors import AwsRefused

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

T = TypeVar("T")

_ABSENT: Final = frozenset({"403", "404", "AccessDenied", "NoSuchKey", "NotFound"})
"""S3's codes for a missing object; 403 to callers that may not list the bucket."""


def unless_absent(call: Callable[[], T]) -> T | None:
    """Make a call about an object; None if there is no such object."""
    try:
        return call()
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            return None
        raise


def delete_objects(client: "S3Client", bucket: str, names: Sequence[str]) -> None:
    """Delete up to 1,000 objects. Raises Unavailable, also if one of them could not be deleted."""
    answer = client.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names], "Quiet": True}
    )
    for error in answer.get("Errors", []):
        raise AwsRefused({"Error": error}, "DeleteObjects")
