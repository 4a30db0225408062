"""Adapter for idempotency keys: rows of the `jobs` table that remember requests.

A row `once#<digest of tenant and key>` stands for a key. It is written before anything else and
holds the ids that the request's jobs get, and a digest of the request. A request that is sent
again, at the same time or a day later, finds these ids, so both write the same rows under the
same conditions, and the second does what a crash left undone:

    function A                   table                        function B (same key)
    claim: ids from 7  ------->  row: ids from 7
                                 refused, the row is returned <------  claim: ids from 9
    (killed here)                job 7 is not there           <------  get
                                 job 7                        <------  put, as A would have
    put job 7, if not there -->  refused: the job is there

Neither waits for the other, and there is no lock that has to expire. docs/decisions/0522 says
what it costs and why Powertools' utility is not used.
"""

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.job_items import Item, key, number, text
from joblane.aws.job_table import refusal_of
from joblane.job.idempotency import WINDOW_S, Claim, IdempotencyKey

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_SORT_KEY = "ONCE"


class IdempotencyStore:
    """Reads and writes the rows of keys."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def claim(self, used: IdempotencyKey, first_id: str, now_s: int) -> Claim:
        """Give a request its ids, or return those that it was given: one write unit."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item={
                    **_key(used.row),
                    "digest": text(used.digest),
                    "first_id": text(first_id),
                    "expires_at": number(now_s + WINDOW_S),
                },
                # TTL deletes late: an expired row counts as absent.
                ConditionExpression="attribute_not_exists(job_id) OR expires_at <= :now",
                ExpressionAttributeValues={":now": number(now_s)},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            row = refusal_of(error)
            # The SDK repeats a call whose answer was lost, and finds its own row.
            if row["first_id"]["S"] == first_id:
                return Claim(first_id, same=True, repeated=False)
            return _claim(row, used)
        return Claim(first_id, same=True, repeated=False)

    def deleted(self, used: IdempotencyKey) -> frozenset[str]:
        """Return the jobs of a request that were deleted by now.

        Call it after a job was not found: `note_deletion` precedes the deletion.
        """
        answer = self._client.get_item(
            TableName=self._table, Key=_key(used.row), ConsistentRead=True
        )
        return _claim(answer.get("Item", {}), used).deleted

    def note_deletion(self, row: str, job_id: str, now_s: int) -> None:
        """Note that a job is being deleted, so that its request does not create it again."""
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
            refusal_of(error)  # expired by now: the key is free again


def _key(row: str) -> Item:
    return key(f"once#{row}", _SORT_KEY)


def _claim(row: Item, used: IdempotencyKey) -> Claim:
    return Claim(
        first_id=row["first_id"]["S"] if row else "",
        same=bool(row) and row["digest"]["S"] == used.digest,
        repeated=True,
        deleted=frozenset(row["deleted"]["SS"] if "deleted" in row else ()),
    )
