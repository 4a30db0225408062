"""Adapter for downloads of bundles, the objects `bundles/<tenant>/<sha256>`."""

from typing import TYPE_CHECKING

from joblane.aws.files.download import Download, open_object
from joblane.deployment.names import bundle_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client


class BundleDownloads:
    """Downloads bundles. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def download(self, tenant: str, sha256: str) -> Download:
        """Begin to read a bundle; the caller checks its digest and its size.

        Raises ObjectGone, Unavailable.
        """
        return open_object(self._client(), self._bucket, bundle_key(tenant, sha256))
