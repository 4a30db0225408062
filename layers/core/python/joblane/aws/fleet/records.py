"""Adapter for the state records of an agent, in a partition of its own in the `agents` table.

Only that agent uses them: they are in no index and in no list of agents. Heartbeats are in
partitions 00 to 15, records in `STATE#<agent>`. Every write is a conditional put. BatchWriteItem
does not support conditions, so a batch is up to 25 concurrent puts, and throttled ones are retried.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.table import ConditionFailed, Row, Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

BATCH = 25
"""Number of concurrent writes."""

PAUSES_S = (0.1, 0.3, 1.0)
"""Pauses before throttled puts are retried, after the SDK's own three tries."""

_NOT_TAKEN = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One record of an agent."""

    kind: str
    id: str
    version: int
    body: str | None
    """None marks a deletion."""
    expires_at: int | None
    """Unix seconds: the table's TTL."""


@dataclass(frozen=True, slots=True)
class Put:
    """A record to store if it is newer than the stored one."""

    record: AgentRecord
    may_be_new: bool
    """Whether it may be absent or deleted before."""
    may_be_there: bool
    """Whether it may replace a record that is not deleted."""


class AgentRecords:
    """Reads and writes the records of one agent."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        agent: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table = Table(client, table)
        self._partition = f"STATE#{agent}"
        self._sleep = sleep

    def put(self, puts: Sequence[Put], now: int) -> list[AgentRecord | None]:
        """Store records, each under its own condition; their ids must differ.

        Returns, for each, None if it was stored, otherwise the record that refused it. Version -1
        means that a required record is absent.

            agent                        table                      agent, earlier request
            put version 2  --------->    version 2
                                         version 2         <------  put version 1, delayed
                                         refused: 2 is newer ---->

        Throttled puts are retried. Raises Unavailable if they keep failing;
        records stored until then remain.
        """
        refusals: dict[int, AgentRecord | None] = {}
        for pause in (*PAUSES_S, None):
            todo = [n for n in range(len(puts)) if n not in refusals]
            not_taken: ClientError | None = None
            with ThreadPoolExecutor(BATCH) as pool:
                tries = [(n, pool.submit(self._put, puts[n], now)) for n in todo]
                for n, tried in tries:
                    try:
                        refusals[n] = tried.result()
                    except ClientError as error:
                        if error.response["Error"]["Code"] not in _NOT_TAKEN:
                            raise
                        not_taken = error
            if not_taken is None:
                break
            if pause is None:
                raise not_taken
            self._sleep(pause)
        return [refusals[n] for n in range(len(puts))]

    def get(self, kind: str, ids: Sequence[str]) -> list[AgentRecord]:
        """Read records, strongly consistent, in any order; absent ones are omitted."""
        keys = [self._key(kind, id_) for id_ in ids]
        return [_record(row) for row in self._table.get_many(keys, consistent=True)]

    def page(
        self, kind: str, after: str | None, limit: int
    ) -> tuple[list[AgentRecord], str | None]:
        """Read a page of a kind in the order of ids; the second value is the next `after`.

        A page may be short, or empty, before the end.
        """
        rows, last = self._table.query(
            "#shard = :shard AND #agent BETWEEN :after AND :end",
            {
                "shard": self._partition,
                # Just after an id: no printable character is smaller than a space.
                "after": f"{kind}#" if after is None else f"{kind}#{after}\x01",
                "end": f"{kind}$",  # $ follows #
            },
            Limit=limit,
            ConsistentRead=True,
        )
        following = None if last is None else last["agent"].partition("#")[2]
        return [_record(row) for row in rows], following

    def _put(self, put: Put, now: int) -> AgentRecord | None:
        record = put.record
        row = {
            **self._key(record.kind, record.id),
            "version": record.version,
            "body": record.body,
            "expires_at": record.expires_at,
        }
        # TTL deletes late: an expired row counts as absent.
        unknown = "(attribute_not_exists(#version) OR #expires_at <= :now)"
        older = "#version < :version"
        if put.may_be_new and put.may_be_there:
            condition = f"{unknown} OR {older}"
        elif put.may_be_new:
            condition = f"{unknown} OR ({older} AND attribute_not_exists(#body))"
        else:
            condition = f"{older} AND attribute_exists(#body) AND NOT {unknown}"
        try:
            self._table.put(row, condition, now=now, version=record.version)
        except ConditionFailed as failure:
            absent = AgentRecord(record.kind, record.id, -1, None, None)
            return _record(failure.row) if failure.row else absent
        return None

    def _key(self, kind: str, id_: str) -> Row:
        return {"shard": self._partition, "agent": f"{kind}#{id_}"}


def _record(row: Row) -> AgentRecord:
    kind, _, id_ = row["agent"].partition("#")
    return AgentRecord(kind, id_, row["version"], row.get("body"), row.get("expires_at"))
