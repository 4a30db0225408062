"""Adapter for the `audit` table: rows are added and never changed.

The row with a record's id describes the requested action. The row with the same id and `!`, if
any, describes its refusal; both sort next to each other. The index `by_job` lists the rows of one
job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from joblane.audit.records import Record, Refusal, Who

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

BY_JOB = "by_job"

EXAMINED_MAX = 500
"""Rows that one request examines when it filters by action."""

_REFUSED = "!"  # sorts before every character of an id


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a trail to read; newest first."""

    limit: int
    before: str | None = None
    """Id of a record: only older ones."""
    since: str | None = None
    """Id: only this one and newer ones."""
    action: str | None = None


class AuditStore:
    """Writes and reads the trail."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def add(self, record: Record, expires_at: int) -> None:
        """Record an action before it is done: 1 write unit, 2 for an action on a job."""
        given = {
            "action": record.action,
            "who": record.who and record.who.encode(),
            "reason": record.reason,
            "asked": record.asked_json,
            "request_id": record.request_id,
        }
        item = {name: {"S": value} for name, value in given.items() if value is not None}
        target = {"M": {name: {"S": value} for name, value in record.target}}
        self._put(record, record.record_id, {**item, "target": target}, expires_at)

    def add_refusal(self, record: Record, refusal: Refusal, expires_at: int) -> None:
        """Record that an action was refused: another row, at the same cost."""
        item = {"status": {"N": str(refusal.status)}, "detail": {"S": refusal.detail}}
        self._put(record, record.record_id + _REFUSED, item, expires_at)

    def of_tenant(self, tenant: str, wanted: Wanted) -> tuple[list[Record], str | None]:
        """Read a page of a tenant's trail, and the id to continue before; None at the end."""
        return self._page({}, "tenant", tenant, wanted)

    def of_job(self, tenant: str, job_id: str, wanted: Wanted) -> tuple[list[Record], str | None]:
        """Read a page of what was done to one job, even if the job was deleted."""
        return self._page({"IndexName": BY_JOB}, "job", f"{tenant}/{job_id}", wanted)

    def _put(self, record: Record, row: str, item: dict[str, Any], expires_at: int) -> None:
        keys = {
            "tenant": {"S": record.tenant},
            "id": {"S": row},
            "expires_at": {"N": str(expires_at)},
        }
        if record.job_id is not None:
            keys["job"] = {"S": f"{record.tenant}/{record.job_id}"}
        try:
            self._client.put_item(
                TableName=self._table,
                Item={**item, **keys},
                ConditionExpression="attribute_not_exists(#id)",
                ExpressionAttributeNames={"#id": "id"},
            )
        except ClientError as error:
            # Ids are random: an existing row was written by an earlier try of this call.
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    def _page(
        self, index: Mapping[str, Any], name: str, value: str, wanted: Wanted
    ) -> tuple[list[Record], str | None]:
        found: list[Record] = []
        before, examined = wanted.before, 0
        while True:
            items, ended = self._rows(index, name, value, before, 2 * wanted.limit)
            for record, is_last in _records(items, ended=ended):
                if wanted.since is not None and record.record_id < wanted.since:
                    return found, None
                before = record.record_id
                if wanted.action in {None, record.action}:
                    found.append(record)
                    if len(found) == wanted.limit:
                        return found, None if is_last else before
            if ended:
                return found, None
            # A refusal at the end is read again, together with its record.
            last = items[-2] if items[-1]["id"]["S"].endswith(_REFUSED) else items[-1]
            before = last["id"]["S"].removesuffix(_REFUSED)
            examined += len(items)
            if examined >= EXAMINED_MAX:
                return found, before

    def _rows(
        self, index: Mapping[str, Any], name: str, value: str, before: str | None, limit: int
    ) -> tuple[Sequence[Mapping[str, Any]], bool]:
        request: dict[str, Any] = {
            "TableName": self._table,
            **index,
            "KeyConditionExpression": "#partition = :partition",
            "ExpressionAttributeNames": {"#partition": name},
            "ExpressionAttributeValues": {":partition": {"S": value}},
            "ScanIndexForward": False,
            "Limit": limit,
        }
        if before is not None:
            request["KeyConditionExpression"] += " AND #id < :before"
            request["ExpressionAttributeNames"]["#id"] = "id"
            request["ExpressionAttributeValues"][":before"] = {"S": before}
        answer = self._client.query(**request)
        return answer["Items"], "LastEvaluatedKey" not in answer


def _records(items: Sequence[Mapping[str, Any]], *, ended: bool) -> Iterator[tuple[Record, bool]]:
    """Combine rows into records, newest first, each with whether it is the trail's last one.

    A refusal comes right before its record. If the last row is a refusal, its record is on the
    next page, where both are read again.
    """
    refusal: tuple[str, Refusal] | None = None
    for number, item in enumerate(items, 1):
        row = item["id"]["S"]
        if row.endswith(_REFUSED):
            refused = Refusal(int(item["status"]["N"]), item["detail"]["S"])
            refusal = row.removesuffix(_REFUSED), refused
            continue
        record = _record(item)
        if refusal is not None and refusal[0] == row:
            record = replace(record, refusal=refusal[1])
        yield record, ended and number == len(items)


def _record(item: Mapping[str, Any]) -> Record:
    def text(name: str) -> str | None:
        return cast("str", item[name]["S"]) if name in item else None

    who = text("who")
    return Record(
        record_id=item["id"]["S"],
        tenant=item["tenant"]["S"],
        action=item["action"]["S"],
        who=None if who is None else Who.decode(who),
        target=tuple(sorted((name, value["S"]) for name, value in item["target"]["M"].items())),
        reason=text("reason"),
        asked_json=text("asked"),
        request_id=text("request_id"),
    )
