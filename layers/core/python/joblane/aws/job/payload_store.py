"""Adapter for what jobs do not have of their submissions: an S3 object, and values of arrays.

An object is for a submission that is too large for the table, and the values of an array are in
items of their own (`joblane.aws.job.array_values`).

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
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.items import encode_spec, read_spec, spec_of_member
from joblane.deployment.names import PAYLOADS
from joblane.errors import Failure
from joblane.group.array import Array
from joblane.job.edit import EDITABLE_FIELDS
from joblane.job.head import DATA_DAYS, Head, PayloadObject, abridge
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

    def __init__(self, client: "Callable[[], S3Client]", bucket: str, values: ArrayValues) -> None:
        self._client = client
        self._bucket = bucket
        self._values = values

    def keep(self, head: Head) -> Head:
        """Put the submission of a new job, or of a restart, into S3 if the table does not take it.

        The values of a new array are written into items of their own. Returns the head to store;
        its submission is abridged if it was put into S3, and has no values.
        """
        head = self._without_values(head)
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
        """Return the head with its whole submission; sends a request only if that is elsewhere.

        Raises PayloadLost, Unavailable.
        """
        return self._with_values(self._read_object(head))

    def _without_values(self, head: Head) -> Head:
        """A job without the values of its array, which are written unless they are there."""
        array = head.spec.array
        if array is None or array.values is None:
            return head
        if not head.has_values:  # else a restart, which changes none
            starts_ms = head.next_at_ms or head.timeline[0].at_ms
            expires_at = starts_ms // 1000 + DATA_DAYS * 86_400
            self._values.put(head.job_id, array.values, expires_at)
        spec = head.spec.model_copy(update={"array": array.bare})
        return replace(head, spec=spec, has_values=True)

    def _with_values(self, head: Head) -> Head:
        """An array with its values, or a member of one with its own."""
        if head.in_array is not None and head.in_array.has_value:
            from joblane.typed.array import with_value  # few jobs have one

            value = self._values.of_member(head)
            if value is None:
                raise PayloadLost("submit its group again: its value has expired")
            return with_value(head, value)
        if not head.has_values:
            return head
        values = self._values.all_of(head)
        if values is None:
            raise PayloadLost("submit it again: its values have expired")
        array = Array.model_construct(values=values)
        return replace(head, spec=head.spec.model_copy(update={"array": array}))

    def _read_object(self, head: Head) -> Head:
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
        """Delete the object of a deleted job, and the values of an array that has not begun.

        What is not deleted expires. The values of a group are deleted before it.
        """
        if head.has_values and head.group is None:
            self._values.delete(head)
        if head.payload is not None:
            self._client().delete_object(Bucket=self._bucket, Key=head.payload.object)
