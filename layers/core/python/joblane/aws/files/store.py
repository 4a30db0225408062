"""Adapter for input files: S3 objects `files/<tenant>/<sha256>`, named by their digest.

A client uploads a file itself, by a request that is signed here
(`joblane.aws.files.signed_uploads`). S3 deletes files some days after their upload, so an upload of
the same content is allowed and begins those days anew.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.files.download import Download, open_object
from joblane.aws.files.signed_uploads import SignedUpload, digest_base64, sign_upload
from joblane.aws.objects import unless_absent
from joblane.deployment.names import file_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An uploaded file."""

    size: int
    """Bytes."""
    uploaded_at: float
    """Time of its last upload, in Unix seconds."""


class FileStore:
    """Finds files, signs uploads, downloads. `client` makes the S3 client when first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def find(self, tenant: str, sha256: str) -> StoredFile | None:
        """Look for a file with that content: one request.

        S3 has compared the content with the digest when it was uploaded, and keeps the digest.
        Raises Unavailable.
        """
        found = unless_absent(
            lambda: self._client().head_object(
                Bucket=self._bucket, Key=file_key(tenant, sha256), ChecksumMode="ENABLED"
            )
        )
        if found is None:
            return None
        digest = digest_base64(sha256)
        if found.get("ChecksumSHA256", digest) != digest:
            return None
        return StoredFile(found["ContentLength"], found["LastModified"].timestamp())

    def upload(self, tenant: str, sha256: str, size: int) -> SignedUpload:
        """Sign the upload of a file of `size` bytes; sends no request."""
        key = file_key(tenant, sha256)
        return sign_upload(
            self._client(), self._bucket, key, sha256=sha256, size=size, if_absent=False
        )

    def download(self, tenant: str, sha256: str) -> Download:
        """Begin to read a file; the caller checks its digest and its size.

        Raises ObjectGone, Unavailable.
        """
        return open_object(self._client(), self._bucket, file_key(tenant, sha256))
