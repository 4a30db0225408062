"""Uploads to S3 that are signed here and made by a client: one PUT of one object.

Length and SHA-256 are part of the signature, so S3 refuses other content. The client can neither
read nor list, and needs no credentials of AWS.
"""

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.config import Config

from joblane.aws.clients import QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import PutObjectRequestTypeDef

VALID_S: Final = 900
"""Seconds in which an upload must begin."""

SIGNING: Final = QUICK.merge(
    Config(
        signature_version="s3v4",
        s3={"us_east_1_regional_endpoint": "regional", "addressing_style": "virtual"},
    )
)
"""Settings of the client: older signatures do not cover headers, and names without a region lead
elsewhere while a bucket is new. Outside of us-east-1 botocore signs for a name with the region only
if addresses are virtual by setting. The console's policy names that host alone."""


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """A PUT that whoever has it may make."""

    url: str
    headers: "Mapping[str, str]"
    """Headers that it must have."""


def sign_upload(
    client: "S3Client", bucket: str, key: str, *, sha256: str, size: int, if_absent: bool
) -> SignedUpload:
    """Sign the upload of an object of `size` bytes; sends no request.

    With `if_absent` S3 refuses it (412) if there is such an object.
    """
    params: PutObjectRequestTypeDef = {
        "Bucket": bucket,
        "Key": key,
        "ContentLength": size,
        "ChecksumSHA256": digest_base64(sha256),
    }
    headers = {"Content-Length": str(size), "x-amz-checksum-sha256": digest_base64(sha256)}
    if if_absent:
        params["IfNoneMatch"] = headers["If-None-Match"] = "*"
    url = client.generate_presigned_url("put_object", Params={**params}, ExpiresIn=VALID_S)
    return SignedUpload(url, headers)


def digest_base64(sha256: str) -> str:
    """A hexadecimal digest in base 64, as headers have it."""
    return base64.b64encode(bytes.fromhex(sha256)).decode("ascii")
