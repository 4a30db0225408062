"""Adapter for bundles: the zip files with the code of job types, S3 objects named by their digest.

A client uploads a bundle itself, by a request that is signed here. Length, SHA-256 and "only if
absent" are part of the signature, so S3 refuses other content and never replaces an object:

    operator                     S3                         another operator
    upload, if absent  ------->  object
                                 412                <------  upload of the same digest, if absent
"""

from typing import TYPE_CHECKING

from joblane.aws.files.signed_uploads import SignedUpload, digest_base64, sign_upload
from joblane.aws.objects import unless_absent
from joblane.deployment.names import bundle_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client


class BundleStore:
    """Looks for bundles and signs uploads. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def exists(self, tenant: str, sha256: str) -> bool:
        """Whether a bundle is there, with that content.

        S3 has compared the content with the digest when it was uploaded, and keeps the digest.
        """
        found = unless_absent(
            lambda: self._client().head_object(
                Bucket=self._bucket, Key=bundle_key(tenant, sha256), ChecksumMode="ENABLED"
            )
        )
        digest = digest_base64(sha256)
        return found is not None and found.get("ChecksumSHA256", digest) == digest

    def upload(self, tenant: str, sha256: str, size: int) -> SignedUpload:
        """Sign the upload of a bundle of `size` bytes; sends no request."""
        return sign_upload(
            self._client(),
            self._bucket,
            bundle_key(tenant, sha256),
            sha256=sha256,
            size=size,
            if_absent=True,
        )
