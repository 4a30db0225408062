"""Adapter for the `counters` table: what happened in queues, by tenant and minute."""

from typing import TYPE_CHECKING, Any

from joblane.queue.activity import Series, Tally

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

TTL_S = 2 * 3600
"""Counters are read for an hour; DynamoDB deletes expired items late."""


class CounterStore:
    """Reads and writes counters: one item for each minute of a tenant's jobs in a queue."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def put(self, series: Series, sequence: int, tally: Tally) -> None:
        """Store the counts of one batch under its first sequence number, beside other batches.

        A batch that is delivered again begins with the same change, but may be longer or split:
        it replaces its earlier counts, and the second part has counts of its own.

            stream                       counters
            1..100  ----------------->   b1: 100
            (function dies)
            1..50   ----------------->   b1: 50
            51..100 ----------------->   b1: 50, b51: 50
        """
        self._client.update_item(
            TableName=self._table,
            Key={
                "series": {"S": _name(series.tenant, series.queue)},
                "at_minute": {"N": str(series.minute)},
            },
            UpdateExpression="SET #batch = :tally, #expires = :expires",
            ExpressionAttributeNames={"#batch": f"b{sequence:x}", "#expires": "expires_at"},
            ExpressionAttributeValues={
                ":tally": {"S": tally.encode()},
                ":expires": {"N": str(series.minute * 60 + TTL_S)},
            },
        )

    def read(self, tenant: str, queue: str, since: int) -> dict[int, Tally]:
        """Read a tenant's counters of one queue from the minute `since` on, by minute.

        One request for each megabyte: an hour of a million jobs is about a fifth of that.
        """
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "#series = :series AND #minute >= :since",
            "ExpressionAttributeNames": {"#series": "series", "#minute": "at_minute"},
            "ExpressionAttributeValues": {
                ":series": {"S": _name(tenant, queue)},
                ":since": {"N": str(since)},
            },
        }
        found: dict[int, Tally] = {}
        while True:
            answer = self._client.query(**request)
            for item in answer["Items"]:
                total = found.setdefault(int(item["at_minute"]["N"]), Tally())
                for name, value in item.items():
                    if name.startswith("b"):
                        total.add(Tally.decode(value["S"]))
            if "LastEvaluatedKey" not in answer:
                return found
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _name(tenant: str, queue: str) -> str:
    return f"{tenant}#{queue}"
