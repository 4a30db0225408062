"""Counts AWS calls at the client, and the DynamoDB capacity that they consume."""

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

import botocore.session

from joblane.aws.clients import Clients
from joblane.testing.memory.schemas import SCHEMAS
from tests.support.aws import KEYS_TABLE, Cloud


@dataclass
class Meter:
    """Counts the AWS calls of one session's clients, and the DynamoDB capacity that they consume.

    DynamoDB charges a write by the larger of the item before and after, in whole kilobytes, and
    one unit for every index entry that is put or deleted (an entry whose key changes is both); a
    refused write costs the same, without indexes. Sizes follow the developer guide ("DynamoDB
    item sizes and formats"). Clients may be used by several threads: what belongs to one call is
    kept in that call's botocore context, and the totals are changed under a lock.
    """

    calls: Counter[str] = field(default_factory=Counter)
    write_units: int = 0
    reads: int = 0
    bytes_read: int = 0
    """Bytes of DynamoDB's responses to reads, as sent over the wire."""
    rows_read: int = 0
    """Items in these responses, entries of indexes included."""
    _lock: Lock = field(default_factory=Lock)

    def reset(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self.calls.clear()
            self.write_units = self.reads = self.bytes_read = self.rows_read = 0

    def clients_of(self, aws: Cloud) -> Clients:
        """Return clients whose every call is counted."""
        session = aws.session()
        self.attach(session, aws.clients.make("dynamodb"))
        return Clients(session)

    def attach(self, session: botocore.session.Session, spare: Any) -> None:
        """Count every call of a session; `spare` is a DynamoDB client of another session."""
        emitter = session.get_component("event_emitter")
        emitter.register("before-call", self._count_call)
        emitter.register("provide-client-params.dynamodb.PutItem", partial(self._put, spare))
        for operation in ("UpdateItem", "DeleteItem"):
            emitter.register(
                f"provide-client-params.dynamodb.{operation}", partial(self._before_write, spare)
            )
            emitter.register(f"after-call.dynamodb.{operation}", self._after_write)
        emitter.register(
            "provide-client-params.dynamodb.TransactWriteItems", partial(self._before_parts, spare)
        )
        emitter.register("after-call.dynamodb.TransactWriteItems", self._after_parts)
        emitter.register("provide-client-params.dynamodb.BatchWriteItem", self._put_batch)
        for operation in ("GetItem", "BatchGetItem", "Query"):
            emitter.register(f"after-call.dynamodb.{operation}", self._read)

    def _count_call(self, model: Any, **_: Any) -> None:
        with self._lock:
            self.calls[f"{model.service_model.service_name}.{model.name}"] += 1

    def _put(self, spare: Any, params: dict[str, Any], **_: Any) -> None:
        before: dict[str, Any] = {}
        item_id = params["Item"].get("job_id", {}).get("S", "")
        if params["TableName"] == KEYS_TABLE or item_id.startswith("SCHEDULE#"):
            # all others put new items
            table, key = _place({"Put": params})
            before = spare.get_item(TableName=table, Key=key).get("Item", {})
        size = max(item_size(before), item_size(params["Item"]))
        units = _units(size) + len(_entries(before) ^ _entries(params["Item"]))
        with self._lock:
            self.write_units += units

    def _put_batch(self, params: dict[str, Any], **_: Any) -> None:
        """New items without index entries, which are all that is put in batches."""
        writes = [each["PutRequest"] for part in params["RequestItems"].values() for each in part]
        with self._lock:
            self.write_units += sum(_units(item_size(each["Item"])) for each in writes)

    def _before_write(
        self, spare: Any, params: dict[str, Any], context: dict[str, Any], **_: Any
    ) -> None:
        def look() -> dict[str, Any]:
            answer = spare.get_item(TableName=params["TableName"], Key=params["Key"])
            item: dict[str, Any] = answer.get("Item", {})
            return item

        context["meter_look"], context["meter_before"] = look, look()

    def _after_write(self, context: dict[str, Any], **_: Any) -> None:
        before: dict[str, Any] = context["meter_before"]
        after = context["meter_look"]()  # the same as before if the write was refused
        size = max(item_size(before), item_size(after))
        with self._lock:
            self.write_units += _units(size) + len(_entries(before) ^ _entries(after))

    def _before_parts(
        self, spare: Any, params: dict[str, Any], context: dict[str, Any], **_: Any
    ) -> None:
        def look() -> list[dict[str, Any]]:
            """The items of the transaction."""
            return [
                spare.get_item(TableName=table, Key=key).get("Item", {})
                for table, key in map(_place, params["TransactItems"])
            ]

        context["meter_parts"], context["meter_items"] = look, look()

    def _after_parts(self, context: dict[str, Any], **_: Any) -> None:
        """A write of a transaction costs twice its units, its index entries what they always do."""
        for before, after in zip(context["meter_items"], context["meter_parts"](), strict=True):
            units = 2 * _units(max(item_size(before), item_size(after)))
            with self._lock:
                self.write_units += units + len(_entries(before) ^ _entries(after))

    def _read(self, http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
        batches = parsed.get("Responses", {}).values()
        rows = len(parsed.get("Items", ())) + ("Item" in parsed) + sum(map(len, batches))
        with self._lock:
            self.reads += 1
            self.rows_read += rows
            self.bytes_read += len(http_response.content)


def _place(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Table and key of a part of a transaction."""
    ((_, request),) = part.items()
    table = request["TableName"]
    item = request.get("Key") or request["Item"]
    names = ("key",) if table == KEYS_TABLE else ("job_id", "sk")
    return table, {name: item[name] for name in names}


def _units(size: int) -> int:
    return max(1, math.ceil(size / 1024))


def _entries(item: dict[str, Any]) -> set[tuple[str, str]]:
    """The index entries of an item: one of under a kilobyte wherever it has the index's keys."""
    return {
        (name, str([item[key] for key in index.keys]))
        for schema in SCHEMAS.values()
        for name, index in schema.indexes.items()
        if index.keys.keys() <= item.keys()
    }


def item_size(item: dict[str, Any]) -> int:
    """Bytes of a DynamoDB item in its wire form."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: dict[str, Any]) -> int:
    (kind, content), *_ = value.items()
    if kind in {"S", "B"}:
        return len(content.encode() if kind == "S" else content)
    if kind == "N":
        return math.ceil(len(content.lstrip("-")) / 2) + 1
    if kind == "SS":
        return sum(len(member.encode()) for member in content)
    if kind == "L":
        return 3 + sum(1 + _value_size(member) for member in content)
    if kind == "M":
        return 3 + sum(1 + len(n.encode()) + _value_size(v) for n, v in content.items())
    if kind == "BOOL":
        return 1
    raise AssertionError(f"no size known for type {kind}")
