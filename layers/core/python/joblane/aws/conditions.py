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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from joblane.conditions import parse
from joblane.head import Head, Step
from joblane.lifecycle import State
from joblane.names import Lane

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_stepfunctions.client import SFNClient

Item = dict[str, Any]

RELAPSE_S = 600
"""A condition that blocks again so soon after its list was emptied was not well: its delays go
on where they were, instead of starting over."""

OVERDUE_S = 3600
"""An execution that is so late with its next test has died without anybody noticing."""

KEPT_S = 7 * 86_400
"""How long a closed condition's row stays for operators to see."""

_OWN = "CONDITION"
_JOB = "JOB#"
_APP = "APP"
_CONDITION_FAILED = "ConditionalCheckFailedException"
_SAME_CYCLE = frozenset({State.PENDING, State.ACTIVE, State.BLOCKED})


class Phase(StrEnum):
    """Whether an execution takes care of a condition."""

    OPENING = "opening"
    RUNNING = "running"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition, as of its last test."""

    condition: str
    generation: int
    """When it was last opened or renewed, Unix milliseconds; names its execution."""
    phase: Phase
    since_ms: int
    """When its first job joined."""
    tests: int
    """Rounds since it last helped a job to let it go; the policy's delay follows from it."""
    allow: int
    """How many jobs the last test let go; 0 while it blocks."""
    why: str
    """What the last test saw."""
    next_ms: int | None = None
    """When the next test is due."""
    closed_ms: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether jobs wait for it, and the last test did not let any go."""
        return self.phase is not Phase.CLOSED and self.allow == 0

    def abandoned(self, now_ms: int) -> bool:
        """Whether its execution must have died."""
        due_ms = self.next_ms if self.next_ms is not None else self.generation
        return self.phase is Phase.RUNNING and now_ms > due_ms + OVERDUE_S * 1000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in a condition's list: all that its return to its lane takes."""

    job_id: str
    tenant: str
    queue: str
    lane: Lane
    first_ms: int
    """When it blocked first, without having run to an end since: its policy's time runs from
    here, so a job that blocks again and again does not wait for ever."""
    blocked_ms: int
    """When it blocked this time."""

    @property
    def again(self) -> bool:
        """Whether it had been let go before, and has come back."""
        return self.blocked_ms > self.first_ms

    @property
    def sort(self) -> str:
        """Where it stands in the list: first come first served, however often it joins."""
        return f"{_JOB}{self.first_ms:015d}#{self.job_id}"


def waiting(head: Head) -> Waiting:
    """The list entry of a job that is blocked, as `JobStore.block` returned it."""
    blocked_ms = head.timeline[-1].at_ms
    return Waiting(
        job_id=head.job_id,
        tenant=head.tenant,
        queue=head.queue,
        lane=head.spec.priority,
        first_ms=_first_blocked(head.timeline, blocked_ms),
        blocked_ms=blocked_ms,
    )


def _first_blocked(timeline: Sequence[Step], blocked_ms: int) -> int:
    """When the blocks began that no other end of an attempt has interrupted."""
    first = blocked_ms
    for step in reversed(timeline):
        if step.state not in _SAME_CYCLE:
            break
        if step.state is State.BLOCKED:
            first = step.at_ms
    return first


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
        self._client.put_item(TableName=self._table, Item=_to_row(condition, waiting(head)))
        self._take_care(condition, now_ms)

    def drop(self, condition: str, entry: Waiting) -> None:
        """Remove an entry; one that is gone already is fine."""
        self._client.delete_item(TableName=self._table, Key=_key(condition, entry.sort))

    def get(self, condition: str) -> ConditionRow | None:
        """Read a condition's own row, strongly consistent."""
        answer = self._client.get_item(
            TableName=self._table, Key=_key(condition, _OWN), ConsistentRead=True
        )
        return _from_own(answer["Item"]) if "Item" in answer else None

    def oldest(self, condition: str, limit: int) -> list[Waiting]:
        """Read the jobs that have waited longest, strongly consistent: at most `limit`."""
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#condition = :condition AND begins_with(sk, :job)",
            ExpressionAttributeNames={"#condition": "condition"},
            ExpressionAttributeValues={":condition": {"S": condition}, ":job": {"S": _JOB}},
            ConsistentRead=True,
            Limit=limit,
        )
        return [_from_row(item) for item in answer["Items"]]

    def swap(self, old: ConditionRow | None, new: ConditionRow) -> bool:
        """Replace a condition's row, if generation and phase are still those of `old`.

        False when somebody else was faster. A call that the SDK repeats because its answer was
        lost finds what it wrote itself, which is a success.
        """
        values: Item = {}
        condition = "attribute_not_exists(sk)"
        if old is not None:
            condition = "generation = :generation AND phase = :phase"
            values = {":generation": _n(old.generation), ":phase": {"S": old.phase}}
        item = _to_own(new)
        request: Any = {"ExpressionAttributeValues": values} if values else {}
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression=condition,
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **request,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise
            return error.response.get("Item") == item
        return True

    def close(self, row: ConditionRow, now_ms: int) -> ConditionRow | None:
        """Stop taking care of a condition whose list is empty (the race: see `join`).

        Returns the row to go on with when a job joined meanwhile, None when nothing is left to
        do here: the list is empty, or somebody else took over. Safe to repeat after a crash,
        with the row as it then stands.
        """
        closed = row
        if row.phase is not Phase.CLOSED:
            closed = replace(row, phase=Phase.CLOSED, next_ms=None, closed_ms=now_ms)
            if not self.swap(row, closed):
                return None
        if not self.oldest(row.condition, 1):
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

    def _take_care(self, condition: str, now_ms: int) -> None:
        """See that an execution runs for a condition that jobs wait for."""
        while True:  # each turn means that somebody else got on
            row = self.get(condition)
            if row is None or row.phase is Phase.CLOSED or row.abandoned(now_ms):
                opened = _opened(condition, row, now_ms)
                if not self.swap(row, opened):
                    continue
                row = opened
            if row.phase is Phase.OPENING:
                self.start(row)
            return


class AppStore:
    """What operators and jobs have declared of `app` conditions, in the same table."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def down(self, app: str, now_s: int) -> str | None:
        """Why an application is declared down; None when it is not, or no longer."""
        key = _key(f"app:{app}", _APP)
        answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        item = answer.get("Item")
        if item is None or int(item["expires_at"]["N"]) <= now_s:  # TTL deletes late
            return None
        return item["why"]["S"]

    def declare_down(self, app: str, why: str, until_s: int) -> None:
        """Hold back all jobs that wait for an application, until Unix time `until_s` at most."""
        item = {**_key(f"app:{app}", _APP), "why": {"S": why}, "expires_at": _n(until_s)}
        self._client.put_item(TableName=self._table, Item=item)

    def declare_up(self, app: str) -> None:
        """Let the jobs that wait for an application go with the next test."""
        self._client.delete_item(TableName=self._table, Key=_key(f"app:{app}", _APP))


def execution_name(row: ConditionRow) -> str:
    """Name of a generation's execution: `http-<hash>-<generation>`, at most 80 characters."""
    digest = hashlib.sha256(row.condition.encode()).hexdigest()[:32]
    return f"{parse(row.condition).kind}-{digest}-{row.generation}"


def _opened(condition: str, old: ConditionRow | None, now_ms: int) -> ConditionRow:
    """The row with which a condition opens; after a relapse its delays go on."""
    tests, generation = 0, now_ms
    if old is not None:
        generation = max(now_ms, old.generation + 1)
        if old.closed_ms is None or now_ms - old.closed_ms < RELAPSE_S * 1000:
            tests = old.tests  # its execution died, or it was not well for long
    return ConditionRow(
        condition=condition,
        generation=generation,
        phase=Phase.OPENING,
        since_ms=now_ms,
        tests=tests,
        allow=0,
        why="a job was blocked by it; not tested yet",
    )


def _key(condition: str, sk: str) -> Item:
    return {"condition": {"S": condition}, "sk": {"S": sk}}


def _n(value: int) -> Item:
    return {"N": str(value)}


def _to_own(row: ConditionRow) -> Item:
    item: Item = {
        **_key(row.condition, _OWN),
        "generation": _n(row.generation),
        "phase": {"S": row.phase},
        "since": _n(row.since_ms),
        "tests": _n(row.tests),
        "allow": _n(row.allow),
        "why": {"S": row.why},
    }
    if row.next_ms is not None:
        item["next_at"] = _n(row.next_ms)
    if row.closed_ms is not None:
        item["closed_at"] = _n(row.closed_ms)
        item["expires_at"] = _n(row.closed_ms // 1000 + KEPT_S)
    return item


def _from_own(item: Item) -> ConditionRow:
    return ConditionRow(
        condition=item["condition"]["S"],
        generation=int(item["generation"]["N"]),
        phase=Phase(item["phase"]["S"]),
        since_ms=int(item["since"]["N"]),
        tests=int(item["tests"]["N"]),
        allow=int(item["allow"]["N"]),
        why=item["why"]["S"],
        next_ms=int(item["next_at"]["N"]) if "next_at" in item else None,
        closed_ms=int(item["closed_at"]["N"]) if "closed_at" in item else None,
    )


def _to_row(condition: str, entry: Waiting) -> Item:
    return {
        **_key(condition, entry.sort),
        "tenant": {"S": entry.tenant},
        "queue": {"S": entry.queue},
        "lane": {"S": entry.lane},
        "first_at": _n(entry.first_ms),
        "blocked_at": _n(entry.blocked_ms),
    }


def _from_row(item: Item) -> Waiting:
    return Waiting(
        job_id=item["sk"]["S"].rpartition("#")[2],
        tenant=item["tenant"]["S"],
        queue=item["queue"]["S"],
        lane=cast("Lane", item["lane"]["S"]),
        first_ms=int(item["first_at"]["N"]),
        blocked_ms=int(item["blocked_at"]["N"]),
    )
