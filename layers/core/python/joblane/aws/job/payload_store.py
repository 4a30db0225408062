"""Adapter for submissions that are too large for the table: one S3 object for each.

The object `payloads/<tenant>/<job id>` is written once, before the job's message and row, and never
changed. What a job has now of `EDITABLE_FIELDS` is in its DATA item, where they are not abridged.
An object that a restart writes has the number of the edit and its digest behind that, so that two
at once write no object of the same name:

    function           S3          lane         table               agent
    keep  ---------->  object
    (killed here: the object expires)
    send  ---------------------->  message
    (killed here: the agent finds no job and discards the message; the object expires)
    put   ----------------------------------->  DATA, then head
                                                active   <-------   claims
                       object  <---------------------------------   fetches

If the message were sent first, an agent would not find the job while the object is being written.
The DATA item holds the object's key, size and digest; every reader checks both, so a
job runs exactly the command that was accepted.
"""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.bounded import Unreadable, read
from joblane.aws.job.items import encode_spec, read_spec, spec_of_member
from joblane.deployment.names import PAYLOADS
from joblane.errors import Failure
from joblane.job.edit import EDITABLE_FIELDS
from joblane.job.head import Head, PayloadObject, abridge
from joblane.job.spec import Submission

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client

MAX_DATA_BYTES = 256 * 1024
"""Longest submission that the table stores. DynamoDB allows 400 KB per item."""

_ABSENT = {
    "NoSuchKey": "S3 has no such object",
    "AccessDenied": "S3 has no such object or s3:GetObject is not granted",
}
"""S3's error codes for a missing object. It returns AccessDenied to callers that may not list the
bucket, and no role of Joblane may."""


class PayloadLost(Failure):
    """The object is gone or is not the one that was written; the text is for an operator."""


def is_large(spec: Submission) -> bool:
    """Whether a submission is too large for the table."""
    return len(_encode(spec)) > MAX_DATA_BYTES


def _encode(spec: Submission) -> bytes:
    return encode_spec(spec).encode()


class PayloadStore:
    """Stores large submissions. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def keep(self, head: Head) -> Head:
        """Put the submission of a new job, or of a restart, into S3 if the table does not take it.

        Returns the head to store; its submission is abridged if it was put into S3.
        """
        body = _encode(head.spec)
        if len(body) <= MAX_DATA_BYTES:
            return head
        sha256 = hashlib.sha256(body).hexdigest()
        name = f"{PAYLOADS}{head.tenant}/{head.job_id}"
        if head.edit:
            name += f".{head.edit}.{sha256[:16]}"
        self._client().put_object(
            Bucket=self._bucket, Key=name, Body=body, ContentType="application/json"
        )
        stored = PayloadObject(name, len(body), sha256)
        return replace(head, spec=abridge(head.spec), payload=stored)

    def read_whole(self, head: Head) -> Head:
        """Return the head with its whole submission; sends a request only if that is in S3.

        Raises PayloadLost, Unavailable.
        """
        stored = head.payload
        if stored is None:
            return head
        where = f"s3://{self._bucket}/{stored.object}"
        try:
            found = self._client().get_object(Bucket=self._bucket, Key=stored.object)
            body = read(found["Body"], stored.size)
        except Unreadable as larger:
            raise PayloadLost(f"submit it again: {larger}, {where}") from None
        except ClientError as error:
            why = _ABSENT.get(error.response["Error"]["Code"])
            if why is None:
                raise
            raise PayloadLost(f"submit it again: {why}, {where}") from None
        if len(body) != stored.size or hashlib.sha256(body).hexdigest() != stored.sha256:
            raise PayloadLost(f"submit it again: not the object that was written, {where}")
        edited = {name: getattr(head.spec, name) for name in EDITABLE_FIELDS}
        spec = read_spec(body, head.lane_path).model_copy(update=edited)
        if head.member_of is not None:
            spec = spec_of_member(spec, head.spec.reply_timeout_s)
        return replace(head, spec=spec, payload=None)

    def delete(self, head: Head) -> None:
        """Delete the object of a deleted job. An object that is not deleted expires."""
        if head.payload is not None:
            self._client().delete_object(Bucket=self._bucket, Key=head.payload.object)
