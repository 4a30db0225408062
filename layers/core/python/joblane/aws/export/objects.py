"""Adapter for the objects of the export: JSON lines, compressed, by tenant and day.

The name of an object is the digest of its lines, so a call that is repeated as a whole writes the
same object again and adds none.
"""

import gzip
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from joblane.deployment.names import EXPORTS

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


class ExportStore:
    """Writes objects; never reads, lists or deletes one."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, tenant: str, day: str, lines: Sequence[str]) -> str:
        """Write one object; returns its name. `day` is `2026-11-27`. Raises Unavailable."""
        text = "".join(f"{line}\n" for line in lines).encode()
        digest = hashlib.sha256(text).hexdigest()[:32]
        name = f"{EXPORTS}tenant={tenant}/day={day}/{digest}.json.gz"
        self._client.put_object(
            Bucket=self._bucket,
            Key=name,
            Body=gzip.compress(text, mtime=0),
            ContentType="application/gzip",
        )
        return name
