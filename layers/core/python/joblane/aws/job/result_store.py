"""Adapter for results that are too large for the job's row: one S3 object for each attempt.

The object `results/<tenant>/<job id>/<epoch>` is written before the transition that names it:

    agent A (epoch 1)          S3                table                agent B (epoch 2)
    (cut off)                                    active, 2  <------   takes over
                               .../2       <-----------------------   put
    put  ------------------->  .../1
                                                 completed  <------   settle: .../2
    settle if epoch 1  --------------------->    refused

An attempt has a name of its own, so a late agent of an earlier epoch cannot replace a result. If an
agent is killed after it has put one and before it settles, the next process of its name puts it
again, or it expires.
"""

import hashlib
from typing import TYPE_CHECKING

from joblane.aws.bounded import Unreadable, read
from joblane.aws.objects import unless_absent
from joblane.deployment.names import RESULTS
from joblane.job.head import Head
from joblane.state.result import MAX_RESULT_BYTES, ResultObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3.client import S3Client


class ResultStore:
    """Stores large results. `client` makes the S3 client when it is first needed."""

    def __init__(self, client: "Callable[[], S3Client]", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, head: Head, result: bytes) -> ResultObject:
        """Store the result of the attempt that `head` shows; may be repeated.

        Raises Unavailable.
        """
        self._client().put_object(
            Bucket=self._bucket, Key=_key(head), Body=result, ContentType="application/json"
        )
        return ResultObject(len(result), hashlib.sha256(result).hexdigest())

    def read(self, head: Head) -> bytes | None:
        """Read the result of a job that has one here; None if it is gone or is another one.

        Raises Unavailable.
        """
        stored = head.result_object
        if stored is None:
            return None
        answer = unless_absent(
            lambda: self._client().get_object(Bucket=self._bucket, Key=_key(head))
        )
        if answer is None:
            return None
        try:
            result = read(answer["Body"], MAX_RESULT_BYTES)
        except Unreadable:
            return None
        return result if hashlib.sha256(result).hexdigest() == stored.sha256 else None

    def delete(self, head: Head) -> None:
        """Delete the result of a deleted job. An object that is not deleted expires."""
        if head.result_object is not None:
            self._client().delete_object(Bucket=self._bucket, Key=_key(head))


def _key(head: Head) -> str:
    return f"{RESULTS}{head.tenant}/{head.job_id}/{head.epoch}"
