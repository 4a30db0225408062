"""Adapter for the `conditions` table: conditions, and the jobs that wait for each.

A condition's partition holds its own row (`CONDITION`) and a row for each waiting job (`JOB#...`,
oldest first). Joining writes a row of its own and only reads the condition's, so a thousand jobs
that block at once do not contend for one item.
"""

from typing import TYPE_CHECKING, cast

from botocore.exceptions import ClientError

from joblane.aws.condition_items import (
    JOB,
    OWN,
    Item,
    number,
    row_key,
    sort_key,
    state_values,
    to_state,
    to_waiting,
    waiting_item,
)
from joblane.aws.directory import directory_key, directory_row
from joblane.condition.state import ConditionState, Phase
from joblane.condition.waiting import WaitingJob

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_CONDITION_FAILED = "ConditionalCheckFailedException"


class ConditionStore:
    """Reads and writes conditions and their lists."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def put(self, condition: str, entry: WaitingJob) -> None:
        """Put a job into a condition's list."""
        self._client.put_item(TableName=self._table, Item=waiting_item(condition, entry))

    def drop(self, condition: str, entry: WaitingJob) -> None:
        """Remove an entry, unless its job has blocked again and joined since it was read.

            recovery                     list                 agent
            reads the entry, unblocks    blocked_at 1
                                                              claims, blocks again
                                         blocked_at 2  <----  join: the same key
            drop if blocked_at 1  ---->  refused

        Safe to repeat.
        """
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=row_key(condition, sort_key(entry)),
                ConditionExpression="blocked_at = :seen",
                ExpressionAttributeValues={":seen": number(entry.blocked_ms)},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise

    def get(self, condition: str) -> ConditionState | None:
        """Read a condition's state, strongly consistent."""
        answer = self._client.get_item(
            TableName=self._table, Key=row_key(condition, OWN), ConsistentRead=True
        )
        return to_state(answer["Item"]) if "Item" in answer else None

    def oldest(self, condition: str, limit: int) -> list[WaitingJob]:
        """Read the jobs that have waited longest, strongly consistent: at most `limit`."""
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#condition = :condition AND begins_with(sk, :job)",
            ExpressionAttributeNames={"#condition": "condition"},
            ExpressionAttributeValues={":condition": {"S": condition}, ":job": {"S": JOB}},
            ConsistentRead=True,
            Limit=limit,
        )
        return [to_waiting(item) for item in answer["Items"]]

    def write(
        self, old: ConditionState | None, new: ConditionState, tenant: str | None = None
    ) -> ConditionState | None:
        """Replace a condition's state, if generation and phase are still those of `old`.

        Returns the state as stored, None when the write was refused. `tenant` becomes the first
        of an opening, or one more of a condition that is open. When the SDK repeats a call whose
        answer was lost, the refusal shows the same state: a success.
        """
        attributes = state_values(new)
        is_open = old is not None and old.phase is not Phase.CLOSED
        values = {f":{name}": value for name, value in attributes.items() if value is not None}
        update = "SET " + ", ".join(
            f"#{name} = :{name}" for name in attributes if f":{name}" in values
        )
        absent = [f"#{name}" for name in attributes if f":{name}" not in values]
        names = {f"#{name}": name for name in attributes}
        condition = "attribute_not_exists(sk)"
        if old is not None:
            condition = "#generation = :was AND #phase = :stood"
            values |= {":was": number(old.generation), ":stood": {"S": old.phase}}
        if tenant is not None:
            names["#tenants"], values[":tenants"] = "tenants", {"SS": [tenant]}
            update += "" if is_open else ", #tenants = :tenants"
        if absent:
            update += " REMOVE " + ", ".join(absent)
        if tenant is not None and is_open:
            update += " ADD #tenants :tenants"
        try:
            answer = self._client.update_item(
                TableName=self._table,
                Key=row_key(new.condition, OWN),
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            found = _refusing(error)
            return found if found == new else None
        return to_state(answer["Attributes"])

    def add_tenant(self, state: ConditionState, tenant: str) -> bool:
        """Note that a tenant is in the directory of an opening; False if that was closed."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=row_key(state.condition, OWN),
                UpdateExpression="ADD #tenants :tenants",
                ConditionExpression="#since = :since AND #phase <> :closed",
                ExpressionAttributeNames={
                    "#tenants": "tenants",
                    "#since": "since",
                    "#phase": "phase",
                },
                ExpressionAttributeValues={
                    ":tenants": {"SS": [tenant]},
                    ":since": number(state.since_ms),
                    ":closed": {"S": Phase.CLOSED},
                },
                ReturnValues="ALL_NEW",
            )
        except ClientError as error:
            _refusing(error)
            return False
        return True

    def enter_directory(self, tenant: str, state: ConditionState, now_ms: int) -> None:
        """List a condition in a tenant's directory, for this opening."""
        self._client.put_item(TableName=self._table, Item=directory_row(tenant, state, now_ms))

    def leave_directory(self, closed: ConditionState) -> None:
        """Remove a closed condition from its tenants' directories, unless it was opened again.

        recovery                 condition            directory            agent
        close  -------------->   closed
        read: list empty                                                   puts its job's row
                                                      since 2   <--------  enters it
                                 opening, since 2     <------------------  opens it
        delete if since 1  ------------------------>  refused
        """
        for tenant in sorted(closed.tenants):
            try:
                self._client.delete_item(
                    TableName=self._table,
                    Key=directory_key(tenant, closed.condition),
                    ConditionExpression="#since = :since",
                    ExpressionAttributeNames={"#since": "since"},
                    ExpressionAttributeValues={":since": number(closed.since_ms)},
                )
            except ClientError as error:
                _refusing(error)


def _refusing(error: ClientError) -> ConditionState | None:
    """Return the row that refused a conditional write; re-raises any other error."""
    if error.response["Error"]["Code"] != _CONDITION_FAILED:
        raise error
    item = cast("Item", error.response.get("Item") or {})
    return to_state(item) if item else None
