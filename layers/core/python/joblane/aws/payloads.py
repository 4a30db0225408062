"""Submissions that are too large for the table: one object each in the deployment's bucket.

The object `<tenant>/<job id>` is written once, before anybody hears of the job, and never changed:

    function           S3          lane         table               agent
    keep  ---------->  object
    (killed here: nobody knows of the object, and it expires)
    send  ---------------------->  message
    (killed here: the agent finds no job and discards the message; the object expires)
    put   ----------------------------------->  DATA, then head
                                                active   <-------   claims
                       object  <---------------------------------   fetches

Were the message sent first, an agent would look for the job in vain as long as the object takes
to be written. The DATA item says where the object is, how long, and its digest; whoever reads it
checks both, so a job never runs with another command than the one that was accepted.
"""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.head import Aside, Head, abridged
from joblane.model import Submission

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client

MAX_DATA_BYTES = 256 * 1024
"""Longest submission that the table holds. An item may have 400 KB."""

_ABSENT = {
    "NoSuchKey": "S3 has no such object",
    "AccessDenied": "S3 has no such object or s3:GetObject is not granted",
}
"""What S3 answers for an object that is not there. Without the right to list the bucket, which
nobody of ours has, it says AccessDenied: whether there is one is not ours to know."""


class PayloadLost(Exception):
    """The object is gone or is not the one that was written; the text is for an operator."""


def is_large(spec: Submission) -> bool:
    """Whether the table has no room for a submission."""
    return len(_encode(spec)) > MAX_DATA_BYTES


def _encode(spec: Submission) -> bytes:
    return spec.model_dump_json(exclude_defaults=True).encode()


class Payloads:
    """Keeps large submissions. `client` makes the S3 client when the first one comes."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def keep(self, head: Head) -> Head:
        """Put the submission of a new job into S3 if it is too large for the table.

        Returns the head as it is to be stored: with the submission abridged, if it went.
        """
        body = _encode(head.spec)
        if len(body) <= MAX_DATA_BYTES:
            return head
        name = f"{head.tenant}/{head.job_id}"
        self._client().put_object(
            Bucket=self._bucket, Key=name, Body=body, ContentType="application/json"
        )
        aside = Aside(name, len(body), hashlib.sha256(body).hexdigest())
        return replace(head, spec=abridged(head.spec), aside=aside)

    def whole(self, head: Head) -> Head:
        """Return the head with its whole submission: one request if that lies in S3, else none.

        Raises PayloadLost, ClientError and BotoCoreError.
        """
        aside = head.aside
        if aside is None:
            return head
        where = f"s3://{self._bucket}/{aside.object}"
        try:
            body = self._client().get_object(Bucket=self._bucket, Key=aside.object)["Body"].read()
        except ClientError as error:
            why = _ABSENT.get(error.response["Error"]["Code"])
            if why is None:
                raise
            raise PayloadLost(f"submit it again: {why}, {where}") from None
        if len(body) != aside.size or hashlib.sha256(body).hexdigest() != aside.sha256:
            raise PayloadLost(f"submit it again: not the object that was written, {where}")
        return replace(head, spec=Submission.model_validate_json(body), aside=None)

    def delete(self, head: Head) -> None:
        """Delete what lies in S3 of a job that is gone from the table; expiry does it else."""
        if head.aside is not None:
            self._client().delete_object(Bucket=self._bucket, Key=head.aside.object)
