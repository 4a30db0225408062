"""Requests that are sent again with the same Idempotency-Key, and make their jobs once.

A row of the `jobs` table stands for a key: `once#<digest of tenant and key>`. It is written
before anything else and holds the ids that the request's jobs get, and a digest of the request.
Whoever sends the request again, at the same time or a day later, finds the ids, so both write the
same rows under the same conditions, and what a crash left undone the second one does:

    function A                   table                        function B (same key)
    claim: ids from 7  ------->  row: ids from 7
                                 refused, the row is returned <------  claim: ids from 9
    (killed here)                job 7 is not there           <------  get
                                 job 7                        <------  put, as A would have
    put job 7, if not there -->  refused: the job is there

Nobody waits for anybody, and no lock has to expire. docs/decisions/0522 says what it costs and
why Powertools' utility is not used.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.job_items import Item, key, number, text
from joblane.aws.job_table import refusal_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

WINDOW_S = 86_400
"""How long a key is remembered."""

ONCE = "ONCE"
"""Sort key of the rows."""


@dataclass(frozen=True, slots=True)
class Once:
    """A request that is to be done once."""

    row: str
    """Names the row: a digest of the tenant and its key."""
    digest: str
    """Of the request: its method, path and body."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a request."""

    first_id: str
    """The id of its job, the first one's of a batch."""
    same: bool
    """Whether the key was used with this very request."""
    repeated: bool
    """Whether it was sent before."""
    deleted: frozenset[str] = frozenset()
    """Those of its jobs that somebody has deleted since: they are not made again."""


def once(tenant: str, idempotency_key: str, request: Iterable[str]) -> Once:
    """Name a request of a tenant; `request` is all that makes it this one."""
    return Once(_digest(tenant, idempotency_key), _digest(*request))


def _digest(*parts: str) -> str:
    """132 bits, as text: the head of a job carries one, and has little room."""
    joined = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(joined).decode("ascii")[:22]


class Repeats:
    """Reads and writes the rows of keys."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def claim(self, once: Once, first_id: str, now_s: int) -> Claim:
        """Give a request its ids, or find those that it was given: one write unit."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item={
                    **_key(once.row),
                    "digest": text(once.digest),
                    "first_id": text(first_id),
                    "expires_at": number(now_s + WINDOW_S),
                },
                # TTL deletes late, so a row that has expired counts for none.
                ConditionExpression="attribute_not_exists(job_id) OR expires_at <= :now",
                ExpressionAttributeValues={":now": number(now_s)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            row = refusal_of(error)
            # The SDK repeats a call whose answer was lost, and finds its own row.
            if row["first_id"]["S"] == first_id:
                return Claim(first_id, same=True, repeated=False)
            return _claim(row, once)
        return Claim(first_id, same=True, repeated=False)

    def deleted(self, once: Once) -> frozenset[str]:
        """Which jobs of a request were deleted, as of now.

        To be asked after a job was not found: `delete` comes before the job goes.
        """
        answer = self._client.get_item(
            TableName=self._table, Key=_key(once.row), ConsistentRead=True
        )
        return _claim(answer.get("Item", {}), once).deleted

    def delete(self, row: str, job_id: str, now_s: int) -> None:
        """Note that a job is being deleted, so that sending its request again finds it so."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(row),
                UpdateExpression="ADD #deleted :ids",
                ExpressionAttributeNames={"#deleted": "deleted"},
                ConditionExpression="attribute_exists(job_id) AND expires_at > :now",
                ExpressionAttributeValues={":ids": {"SS": [job_id]}, ":now": number(now_s)},
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            refusal_of(error)  # forgotten by now: the key is free again


def _key(row: str) -> Item:
    return key(f"once#{row}", ONCE)


def _claim(row: Item, once: Once) -> Claim:
    return Claim(
        first_id=row["first_id"]["S"] if row else "",
        same=bool(row) and row["digest"]["S"] == once.digest,
        repeated=True,
        deleted=frozenset(row["deleted"]["SS"] if "deleted" in row else ()),
    )
