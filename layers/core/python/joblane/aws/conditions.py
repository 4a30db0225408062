"""The `conditions` table: who waits for what, and which execution of the state machine tests it.

A condition's partition holds its own row (`CONDITION`) and a row a waiting job (`JOB#...`,
oldest first). Joining writes a row of its own and only reads the condition's, so a thousand jobs
that block at once do not queue up at one item.

The row's phase says whether somebody takes care of the condition:

    (absent) --open--> opening --begin--> running --close--> closed --open--> opening ...
                          ^                  |
                          +--- renew --------+   a successor takes over from an execution

Each opening and renewal is a new generation, and a generation names one execution. Whoever finds
a condition in `opening` starts its execution: the name makes sure that it is started once, and a
crash between the write and the start is made good by whoever comes next.
"""

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from botocore.exceptions import ClientError

from joblane.aws.condition_items import (
    JOB,
    OWN,
    ConditionRow,
    Item,
    Phase,
    Waiting,
    from_own,
    from_row,
    number,
    own_values,
    row_key,
    to_row,
    waiting,
)
from joblane.aws.directory import directory_key, directory_row
from joblane.conditions import parse
from joblane.head import Head

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_stepfunctions.client import SFNClient

RELAPSE_S = 600
"""A condition that blocks again so soon after its list was emptied was not well: its delays go
on where they were, instead of starting over."""

_CONDITION_FAILED = "ConditionalCheckFailedException"


class ConditionStore:
    """Reads and writes conditions and their lists, and starts their executions."""

    def __init__(
        self, client: "DynamoDBClient", table: str, stepfunctions: "SFNClient", machine_arn: str
    ) -> None:
        self._client = client
        self._table = table
        self._stepfunctions = stepfunctions
        self._machine_arn = machine_arn

    def join(self, condition: str, head: Head, now_ms: int) -> None:
        """Put a blocked job into its condition's list, and see that somebody tests it.

        Safe to repeat, and to be repeated by another agent after a crash: the second step of
        handing a job over (block, join, delete the message). The race with an execution that
        finds its list empty is settled by the order of the steps on both sides:

            agent                        condition            execution
            put row  -------------->     running              reads: list empty
                                         closed     <-------  close, if still my generation
            read: closed                            <-------  read again: a row -> reopen
            open, if still closed --->   opening, new generation

        The row is put before the phase is read, and the phase is closed before the list is read
        again, all strongly consistent: at least one of the two sees the other. If both do, both
        write on the condition that it is still closed under that generation, and the second is
        refused. Raises ClientError.
        """
        self._client.put_item(TableName=self._table, Item=to_row(condition, waiting(head)))
        self._take_care(condition, head.tenant, now_ms)

    def drop(self, condition: str, entry: Waiting) -> None:
        """Remove an entry, unless its job has blocked again and joined since it was read.

            recovery                     list                 agent
            reads the entry, lets go     blocked_at 1
                                                              claims, blocks again
                                         blocked_at 2  <----  join: the same key
            drop if blocked_at 1  ---->  refused

        One that is gone already is fine.
        """
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=row_key(condition, entry.sort),
                ConditionExpression="blocked_at = :seen",
                ExpressionAttributeValues={":seen": number(entry.blocked_ms)},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise

    def get(self, condition: str) -> ConditionRow | None:
        """Read a condition's own row, strongly consistent."""
        answer = self._client.get_item(
            TableName=self._table, Key=row_key(condition, OWN), ConsistentRead=True
        )
        return from_own(answer["Item"]) if "Item" in answer else None

    def oldest(self, condition: str, limit: int) -> list[Waiting]:
        """Read the jobs that have waited longest, strongly consistent: at most `limit`."""
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#condition = :condition AND begins_with(sk, :job)",
            ExpressionAttributeNames={"#condition": "condition"},
            ExpressionAttributeValues={":condition": {"S": condition}, ":job": {"S": JOB}},
            ConsistentRead=True,
            Limit=limit,
        )
        return [from_row(item) for item in answer["Items"]]

    def swap(self, old: ConditionRow | None, new: ConditionRow) -> bool:
        """Replace a condition's row, if generation and phase are still those of `old`.

        False when somebody else was faster. `tenants` stays as it is in the table.
        """
        return self._write(old, new) is not None

    def close(self, row: ConditionRow, now_ms: int) -> ConditionRow | None:
        """Stop taking care of a condition whose list is empty (the race: see `join`).

        Returns the row to go on with when a job joined meanwhile, None when nothing is left to
        do here: the list is empty, or somebody else took over. Safe to repeat after a crash,
        with the row as it then stands.
        """
        closed: ConditionRow | None = row
        if row.phase is not Phase.CLOSED:
            after = replace(row, phase=Phase.CLOSED, next_ms=None, closed_ms=now_ms)
            closed = self._write(row, after)
        if closed is None:
            return None
        if not self.oldest(row.condition, 1):
            self._leave_directory(closed)
            return None
        reopened = replace(closed, phase=Phase.RUNNING, closed_ms=None)
        return reopened if self.swap(closed, reopened) else None

    def renew(self, row: ConditionRow, now_ms: int) -> None:
        """Let a new execution take over from the one that `row` names, where that stands."""
        successor = replace(
            row,
            generation=max(now_ms, row.generation + 1),
            phase=Phase.OPENING,
            next_ms=None,
            closed_ms=None,
        )
        if self.swap(row, successor):
            self.start(successor)

    def start(self, row: ConditionRow) -> None:
        """Start the execution of a generation; one that was started already is fine.

        Names stay taken for 90 days, so a late repetition starts nothing.
        """
        try:
            self._stepfunctions.start_execution(
                stateMachineArn=self._machine_arn,
                name=execution_name(row),
                input=json.dumps({"condition": row.condition, "generation": row.generation}),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
                raise

    def _take_care(self, condition: str, tenant: str, now_ms: int) -> None:
        """See that an execution runs for a condition that a tenant's jobs wait for.

        The tenant's directory row is put before the condition's row says that it is there: who
        dies in between is followed by an agent that gets the same message and does both.
        """
        while True:  # each turn means that somebody else got on
            row = self.get(condition)
            if row is None or row.phase is Phase.CLOSED or row.abandoned(now_ms):
                opened = _opened(condition, row, now_ms)
                self._enter_directory(tenant, opened, now_ms)
                if self._write(row, opened, tenant) is None:
                    continue
                row = opened
            elif tenant not in row.tenants:
                self._enter_directory(tenant, row, now_ms)
                if not self._add_tenant(row, tenant):
                    continue
            if row.phase is Phase.OPENING:
                self.start(row)
            return

    def _write(
        self, old: ConditionRow | None, new: ConditionRow, tenant: str | None = None
    ) -> ConditionRow | None:
        """Write what `new` says over `old`, and what it then is; None when it was refused.

        With `tenant` it is the first of an opening, or another one of what goes on. A call that
        the SDK repeats because its answer was lost finds what it wrote itself: a success.
        """
        attributes = own_values(new)
        goes_on = old is not None and old.phase is not Phase.CLOSED
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
            update += "" if goes_on else ", #tenants = :tenants"
        if absent:
            update += " REMOVE " + ", ".join(absent)
        if tenant is not None and goes_on:
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
        return from_own(answer["Attributes"])

    def _add_tenant(self, row: ConditionRow, tenant: str) -> bool:
        """Note that a tenant is in the directory of an opening; False when that has closed."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=row_key(row.condition, OWN),
                UpdateExpression="ADD #tenants :tenants",
                ConditionExpression="#since = :since AND #phase <> :closed",
                ExpressionAttributeNames={
                    "#tenants": "tenants",
                    "#since": "since",
                    "#phase": "phase",
                },
                ExpressionAttributeValues={
                    ":tenants": {"SS": [tenant]},
                    ":since": number(row.since_ms),
                    ":closed": {"S": Phase.CLOSED},
                },
                ReturnValues="ALL_NEW",
            )
        except ClientError as error:
            _refusing(error)
            return False
        return True

    def _enter_directory(self, tenant: str, row: ConditionRow, now_ms: int) -> None:
        self._client.put_item(TableName=self._table, Item=directory_row(tenant, row, now_ms))

    def _leave_directory(self, closed: ConditionRow) -> None:
        """Take a closed condition out of its tenants' directories, unless it opened again.

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


def _refusing(error: ClientError) -> ConditionRow | None:
    """The row that refused a conditional write; anything else is raised again."""
    if error.response["Error"]["Code"] != _CONDITION_FAILED:
        raise error
    item = cast("Item", error.response.get("Item") or {})
    return from_own(item) if item else None


def execution_name(row: ConditionRow) -> str:
    """Name of a generation's execution: `http-<hash>-<generation>`, at most 80 characters."""
    digest = hashlib.sha256(row.condition.encode()).hexdigest()[:32]
    return f"{parse(row.condition).kind}-{digest}-{row.generation}"


def _opened(condition: str, old: ConditionRow | None, now_ms: int) -> ConditionRow:
    """The row with which a condition opens; after a relapse its delays go on."""
    if old is not None and old.phase is not Phase.CLOSED:  # its execution died, its jobs wait on
        generation = max(now_ms, old.generation + 1)
        return replace(old, generation=generation, phase=Phase.OPENING, next_ms=None)
    tests, generation = 0, now_ms
    if old is not None:
        generation = max(now_ms, old.generation + 1)
        if old.closed_ms is None or now_ms - old.closed_ms < RELAPSE_S * 1000:
            tests = old.tests  # it was not well for long
    return ConditionRow(
        condition=condition,
        generation=generation,
        phase=Phase.OPENING,
        since_ms=now_ms,
        tests=tests,
        allow=0,
        why="a job was blocked by it; not tested yet",
    )
