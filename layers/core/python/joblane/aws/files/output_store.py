"""Adapter for output files: S3 objects of an attempt, and the manifest that lists them.

The files `outputs/<tenant>/<job id>/<epoch>/f/<path>` are put before the manifest, and that before
the job's transition:

    agent                      S3                table                reader
    put  ------------------->  .../1/f/a, f/b
    (killed here: another process puts them again, or they expire)
    put  ------------------->  .../1/manifest
    settle, with a summary  -------------------> completed
                               .../1/manifest  <--------------------  lists the files

An attempt has names of its own, so a late agent of an earlier epoch replaces nothing.
"""

import gzip
import re
from typing import TYPE_CHECKING, BinaryIO, Final

from pydantic import ValidationError

from joblane.aws.bounded import Unreadable, gunzip, read
from joblane.aws.files.signed_uploads import digest_base64
from joblane.aws.objects import delete_objects, unless_absent
from joblane.deployment.names import manifest_key, output_key, outputs_prefix
from joblane.files.models import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client

LINK_S: Final = 300
"""Seconds in which a download by a link must begin."""

PAGE: Final = 1000
"""Objects that one request lists, or deletes: the most that S3 allows."""


APART: Final = 100
"""Objects that one call deletes one by one; a request takes some 20 ms."""

_IN_XML = re.compile("[\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
"""What XML 1.0 carries unchanged: it has no other characters but line ends, which it changes."""


MAX_LIST_BYTES: Final = 32 << 20
"""Bytes of the list of an attempt's files: 100,000 with paths of some 150 bytes. A function that
reads one page of it parses all of it."""


class ListTooLong(ValueError):
    """The names of output files take too much; the text has the figures."""


class OutputFileStore:
    """Stores output files. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(
        self, tenant: str, job_id: str, epoch: int, path: str, body: BinaryIO, *, sha256: str
    ) -> None:
        """Store a file of an attempt; may be repeated.

        `body` is read from its position to its end, and sought back if the request is repeated.
        S3 refuses content whose SHA-256 is another one. Raises Unavailable.
        """
        self._client().put_object(
            Bucket=self._bucket,
            Key=output_key(tenant, job_id, epoch, path),
            Body=body,
            ContentType="application/octet-stream",
            ChecksumSHA256=digest_base64(sha256),
        )

    def put_manifest(self, tenant: str, job_id: str, epoch: int, manifest: Manifest) -> None:
        """Store the list of an attempt's files; may be repeated.

        Raises ListTooLong, Unavailable.
        """
        text = manifest.model_dump_json().encode()
        if len(text) > MAX_LIST_BYTES:
            raise ListTooLong(f"a list of {len(text)} bytes; allowed are {MAX_LIST_BYTES}")
        self._client().put_object(
            Bucket=self._bucket,
            Key=manifest_key(tenant, job_id, epoch),
            Body=gzip.compress(text, mtime=0),
            ContentType="application/gzip",
        )

    def manifest(self, tenant: str, job_id: str, epoch: int) -> Manifest | None:
        """Read the list of an attempt's files; None if it is gone: it has expired.

        Raises Unreadable if it is none, Unavailable.
        """
        key = manifest_key(tenant, job_id, epoch)
        answer = unless_absent(lambda: self._client().get_object(Bucket=self._bucket, Key=key))
        if answer is None:
            return None
        text = gunzip(read(answer["Body"], MAX_LIST_BYTES), MAX_LIST_BYTES)
        try:
            return Manifest.model_validate_json(text)
        except ValidationError:
            raise Unreadable("it is no list of files") from None

    def link(self, tenant: str, job_id: str, epoch: int, path: str) -> str:
        """Sign the download of a file; sends no request.

        Browsers save it and do not show it: what a job wrote must not run in a page of S3's.
        """
        return self._client().generate_presigned_url(
            "get_object",
            Params={
                "Bucket": self._bucket,
                "Key": output_key(tenant, job_id, epoch, path),
                "ResponseContentDisposition": "attachment",
                "ResponseContentType": "application/octet-stream",
            },
            ExpiresIn=LINK_S,
        )

    def delete(self, tenant: str, job_id: str) -> bool:
        """Delete up to 1,000 objects of all attempts of a job; whether nothing was left over.

        Whoever could write to the bucket chose the names: those that XML cannot carry are deleted
        one by one, since S3 would refuse the whole list. Raises Unavailable.
        """
        listed = self._client().list_objects_v2(
            Bucket=self._bucket, Prefix=outputs_prefix(tenant, job_id), MaxKeys=PAGE
        )
        if not (found := listed.get("Contents", [])):
            return True
        names = [entry["Key"] for entry in found]
        apart = [name for name in names if not _IN_XML.fullmatch(name)]
        for name in apart[:APART]:
            self._client().delete_object(Bucket=self._bucket, Key=name)
        if together := [name for name in names if _IN_XML.fullmatch(name)]:
            delete_objects(self._client(), self._bucket, together)
        return not listed["IsTruncated"] and len(apart) <= APART
