"""Notes what the tables in memory were asked and answered, for a second opinion on DynamoDB.

With JOBLANE_REQUESTS, a directory, each process of the unit tests writes a file into it: of each
kind of request one, with the items that it met. `tests/unit/test_second_opinion.py` asks another
implementation of DynamoDB all of them. So a request that is new in the product is asked without
anybody's doing.
"""

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from joblane.testing.memory.schemas import SCHEMAS

Item = dict[str, Any]
Rows = Mapping[str, Mapping[tuple[str, ...], Item]]
Place = tuple[str, Item]
"""A table and an item in it."""

FEW = 12
"""A request that met more items is noted again when it meets fewer."""

_BY_NAMES = {"Item", "Key", "Keys", "ExclusiveStartKey", "ExpressionAttributeValues"}
"""Parts of a request of which the names and types of attributes count, and not the values."""

_OF_TESTS = {"scan", "delete_table"}
"""Operations that only tests use."""


class _Notes:
    """The requests of one process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._found: dict[Any, tuple[int, str]] = {}

    def note(
        self, operation: str, request: Item, met: list[Place], answer: Item, rows: Rows
    ) -> None:
        """Note a request if it is the first of its kind, or met fewer items than that one."""
        kind = (operation, _outcome(request, answer), _shape(request))
        count, _ = self._found.get(kind, (sys.maxsize, ""))
        if count <= FEW:
            return
        items = met or _partition(request, rows)
        if len(items) < count:
            made = [operation, request, items, answer, [*_list_places(request, rows)]]
            self._found[kind] = len(items), json.dumps(made, default=_encode)

    def write(self) -> None:
        """Write them all down."""
        if not self._found:
            return
        lines = [
            json.dumps([_spell(kind), count, text]) for kind, (count, text) in self._found.items()
        ]
        file = self._directory / f"{os.getpid()}.jsonl"  # of a process that was forked since
        file.write_text("\n".join(lines), "utf-8")


_NOTES = _Notes(Path(os.environ["JOBLANE_REQUESTS"])) if "JOBLANE_REQUESTS" in os.environ else None


def write_notes() -> None:
    """Write down what this process has noted; at its end."""
    if _NOTES is not None:
        _NOTES.write()


def note(operation: str, request: Item, rows: Rows, make: Callable[[], Item]) -> Item:
    """Make a request, and note it."""
    tables = request.get("RequestItems", [request.get("TableName", "")])
    if _NOTES is None or operation in _OF_TESTS or (tables and not {*tables} <= {"", *rows}):
        return make()
    met = [*_list_places(request, rows)]
    try:
        answer = make()
    except ClientError as error:
        _NOTES.note(operation, request, met, {**error.response}, rows)
        raise
    _NOTES.note(operation, request, met, answer, rows)
    return answer


def _list_places(request: Item, rows: Rows) -> Iterator[Place]:
    """The items that a request names."""
    if "TransactItems" in request:
        for part in request["TransactItems"]:
            yield from _list_places(next(iter(part.values())), rows)
    elif "RequestItems" in request:
        for table, wanted in request["RequestItems"].items():
            named = (
                [next(iter(change.values())) for change in wanted]
                if isinstance(wanted, list)
                else [{"Key": key} for key in wanted["Keys"]]
            )
            for each in named:
                yield from _list_places({"TableName": table, **each}, rows)
    elif request.get("TableName") in rows:
        table = request["TableName"]
        given = request.get("Item") or request.get("Key") or {}
        key = tuple(next(iter(given.get(name, {"": ""}).values())) for name in SCHEMAS[table].keys)
        if key in rows[table]:
            yield table, rows[table][key]


def _partition(request: Item, rows: Rows) -> list[Place]:
    """The items that a query may find: those with a value of the query in the partition's key."""
    if "KeyConditionExpression" not in request:
        return []
    table = request["TableName"]
    indexes = SCHEMAS[table].indexes
    keys = getattr(indexes.get(request.get("IndexName", "")), "keys", SCHEMAS[table].keys)
    partition = next(iter(keys))
    values = [*request.get("ExpressionAttributeValues", {}).values()]
    found = rows.get(table, {}).values()
    return [(table, item) for item in found if item.get(partition) in values]


def _outcome(request: Item, answer: Item) -> tuple[Any, ...]:
    """What came of a request: an error, what the answer has, whether it is a full page."""
    if "Error" in answer:
        return (answer["Error"]["Code"],)
    found = frozenset(name for name, value in answer.items() if value)
    return found, len(answer.get("Items", ())) == request.get("Limit")


def _shape(value: Any, name: str = "") -> Any:
    """What requests of one kind have in common."""
    if isinstance(value, dict):
        if name in _BY_NAMES:
            return frozenset((member, next(iter(v), "")) for member, v in value.items())
        if name == "ExpressionAttributeNames":
            return frozenset(_without_numbers(f"{m} {v}") for m, v in value.items())
        return frozenset((member, _shape(v, member)) for member, v in value.items())
    if isinstance(value, list):
        return frozenset(_shape(member, name) for member in value)
    if name.endswith("Expression"):
        return _without_numbers(value)
    return None if name in {"Limit", "ClientRequestToken"} else value


def _spell(kind: Any) -> str:
    """A kind as text that is the same in all processes."""
    if isinstance(kind, frozenset):
        return f"{{{', '.join(sorted(map(_spell, kind)))}}}"
    return f"({', '.join(map(_spell, kind))})" if isinstance(kind, tuple) else repr(kind)


@lru_cache(10_000)
def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


def _encode(value: Any) -> str:
    return base64.b64encode(value).decode()
