"""Adapter for downloads of bundles, the objects `bundles/<tenant>/<sha256>`."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.deployment.names import bundle_key

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_CHUNK = 1 << 20
_ABSENT = frozenset({"NoSuchKey", "AccessDenied"})
"""S3's error codes for a missing object; the second one to callers that may not list the bucket."""


class BundleGone(Exception):
    """There is no such object; the text names it."""


class BundleDownloads:
    """Downloads bundles. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def download(self, tenant: str, sha256: str) -> Iterator[bytes]:
        """Read a bundle piece by piece; the caller checks its digest and its size.

        Raises BundleGone, ClientError and BotoCoreError.
        """
        name = bundle_key(tenant, sha256)
        try:
            answer = self._client().get_object(Bucket=self._bucket, Key=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                raise BundleGone(f"s3://{self._bucket}/{name}") from None
            raise
        yield from answer["Body"].iter_chunks(_CHUNK)
