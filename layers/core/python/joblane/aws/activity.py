"""From the stream of the `jobs` table to the `counters` table, and back to who asks."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from joblane.activity import Change, Kind, Series, Tally
from joblane.head import Step
from joblane.lifecycle import State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

TTL_S = 2 * 3600
"""Counters are of use for an hour, and DynamoDB deletes when it likes."""

KINDS: Mapping[State, Kind] = {
    State.ACTIVE: "started",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.DEAD: "failed",
    State.RETRY: "retried",
}
"""What a job's change into a state counts as; its first state, whichever, is a submission."""


def change_of(record: Mapping[str, Any]) -> Change | None:
    """Read a record of the stream; None for one that does not count.

    Raises KeyError, ValueError or TypeError for one that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != "JOB" or record["eventName"] == "REMOVE":
        return None
    new, old = stream["NewImage"], stream.get("OldImage")
    state = State(new["state"]["S"])
    waited_ms = 0
    kind: Kind | None
    if old is None:
        kind = "submitted"
    else:
        before = State(old["state"]["S"])
        kind = KINDS.get(state)
        if kind is None or kind == KINDS.get(before):
            return None
        if kind == "started":
            waited_ms = _waited_ms(old, new)
    queue, items = _carried(new)
    return Change(
        tenant=new["tenant"]["S"],
        queue=queue,
        kind=kind,
        items=items,
        minute=int(stream["ApproximateCreationDateTime"]) // 60,
        sequence=int(stream["SequenceNumber"]),
        waited_ms=waited_ms,
    )


def _carried(head: Mapping[str, Any]) -> tuple[str, int]:
    """Queue and items of a job, from its submission or from what stands in for it."""
    if "spec" in head:
        spec = json.loads(head["spec"]["S"])
        return str(spec["queue"]), int(spec.get("items", 1))
    return head["queue"]["S"], int(head["items"]["N"]) if "items" in head else 1


def _waited_ms(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """How long a job that starts could have started already."""
    started_ms = Step.decode(new["timeline"]["L"][-1]["S"]).at_ms
    if "next_at" in old:
        ready_ms = int(old["next_at"]["N"])
    else:
        ready_ms = Step.decode(old["timeline"]["L"][-1]["S"]).at_ms
    return max(0, started_ms - ready_ms)


class CounterStore:
    """Reads and writes counters: an item a minute of a tenant's jobs in a queue."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def put(self, series: Series, sequence: int, tally: Tally) -> None:
        """Store what one batch counted, beside what others did, under its first sequence number.

        A batch that is delivered again begins with the same change, longer or cut in two: it
        replaces what it had counted, and the second part counts for itself.

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
