"""Adapter for bundles: the zip files with the code of job types, S3 objects named by their digest.

A client uploads a bundle itself, by a request that is signed here. Length, SHA-256 and "only if
absent" are part of the signature, so S3 refuses other content and never replaces an object:

    operator                     S3                         another operator
    upload, if absent  ------->  object
                                 412                <------  upload of the same digest, if absent
"""

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.config import Config
from botocore.exceptions import ClientError

from joblane.aws.clients import QUICK
from joblane.deployment.names import bundle_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_s3.client import S3Client

VALID_S: Final = 900
"""Seconds in which an upload must begin."""

SIGNING: Final = QUICK.merge(
    Config(signature_version="s3v4", s3={"us_east_1_regional_endpoint": "regional"})
)
"""Settings of the client: older signatures do not cover headers, and names without a region lead
elsewhere while a bucket is new."""

_ABSENT = frozenset({"403", "404", "AccessDenied", "NoSuchKey", "NotFound"})
"""S3's codes for a missing object; 403 to callers that may not list the bucket."""


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A PUT that whoever has it may make."""

    url: str
    headers: "Mapping[str, str]"
    """Headers that it must have."""


class BundleStore:
    """Looks for bundles and signs uploads. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def exists(self, tenant: str, sha256: str) -> bool:
        """Whether a bundle is there, with that content.

        S3 has compared the content with the digest when it was uploaded, and keeps the digest.
        """
        try:
            found = self._client().head_object(
                Bucket=self._bucket, Key=bundle_key(tenant, sha256), ChecksumMode="ENABLED"
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return False
            raise
        return found.get("ChecksumSHA256", _base64(sha256)) == _base64(sha256)

    def upload(self, tenant: str, sha256: str, size: int) -> SignedUpload:
        """Sign the upload of a bundle of `size` bytes; sends no request."""
        url = self._client().generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": bundle_key(tenant, sha256),
                "ContentLength": size,
                "ChecksumSHA256": _base64(sha256),
                "IfNoneMatch": "*",
            },
            ExpiresIn=VALID_S,
        )
        headers = {
            "Content-Length": str(size),
            "If-None-Match": "*",
            "x-amz-checksum-sha256": _base64(sha256),
        }
        return SignedUpload(url, headers)


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode("ascii")
