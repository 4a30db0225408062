"""What DynamoDB refuses of items, keys and requests for many of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from joblane.testing.memory.evaluation import Item, refusal
from joblane.testing.memory.schemas import SCHEMAS, Schema

LARGEST_ITEM = 409_600
LARGEST_PAGE = 1 << 20
_MOST_DIGITS = 38
_NUMBER = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE][+-]?\d+)?")
_SETS = {"SS": "string", "NS": "number", "BS": "binary"}

Key = tuple[str, ...]


def schema_of(table: str) -> Schema:
    """A table's keys and indexes."""
    if table not in SCHEMAS:
        raise refusal("Requested resource not found", "ResourceNotFoundException")
    return SCHEMAS[table]


def key_of(table: str, key: Item) -> Key:
    """The values of a request's key."""
    schema = schema_of(table)
    if key.keys() != schema.keys.keys():
        raise refusal("The provided key element does not match the schema")
    found = []
    for name, kind in schema.keys.items():
        value = key[name].get(kind)
        if value is None:
            raise refusal("The provided key element does not match the schema")
        if value == "":
            raise empty_key(f"Key: {name}")
        if kind == "N":
            _number(value)
        found.append(value)
    return tuple(found)


def key_of_item(table: str, item: Item) -> Key:
    """The values of an item's key."""
    for name, kind in schema_of(table).keys.items():
        if name not in item:
            raise refusal(
                f"One or more parameter values were invalid: Missing the key {name} in the item"
            )
        if kind not in item[name]:
            raise refusal(
                "One or more parameter values were invalid:"
                f" Type mismatch for key {name} expected: {kind} actual: {next(iter(item[name]))}"
            )
    return key_of(table, {name: item[name] for name in SCHEMAS[table].keys})


def check_index_keys(table: str, item: Item) -> None:
    """Refuse attributes that an index cannot have as its keys."""
    for index, definition in SCHEMAS[table].indexes.items():
        for name, kind in definition.keys.items():
            value = item.get(name)
            if value is None:
                continue
            if kind not in value:
                raise refusal(
                    "One or more parameter values were invalid: Type mismatch for Index Key"
                    f" {name} Expected: {kind} Actual: {next(iter(value))} IndexName: {index}"
                )
            if value[kind] == "":
                raise empty_key(f"IndexName: {index}, IndexKey: {name}")


def check_not_key(table: str, name: str) -> None:
    """Refuse to update a part of the key."""
    if name in schema_of(table).keys:
        raise refusal(
            "One or more parameter values were invalid:"
            f" Cannot update attribute {name}. This attribute is part of the key"
        )


def check_size(size: int, *, updated: bool) -> None:
    """Refuse an item that is too large."""
    if size > LARGEST_ITEM:
        what = "Item size to update" if updated else "Item size"
        raise refusal(f"{what} has exceeded the maximum allowed size")


def check_item(item: Mapping[str, Item]) -> int:
    """Check all values of an item. Returns its size in bytes."""
    size = 0
    for name, value in item.items():
        size += len(name) + check_value(value)
    return size


def check_value(value: Item) -> int:
    """Check a value. Returns its size in bytes, as the developer guide counts them."""
    (kind,) = value
    content = value[kind]
    match kind:
        case "S":
            return len(content) if content.isascii() else len(content.encode())
        case "N":
            return _number(content)
        case "L":
            return 3 + sum(1 + check_value(member) for member in content)
        case "M":
            return 3 + sum(1 + len(n) + check_value(v) for n, v in content.items())
        case "SS" | "NS" | "BS":
            return _set(kind, content)
    return len(content) if kind == "B" else 1


def _set(kind: str, members: Sequence[str]) -> int:
    if not members:
        raise refusal(
            f"One or more parameter values were invalid: An {_SETS[kind]} set  may not be empty"
        )
    if len(set(members)) < len(members):
        raise refusal(
            "One or more parameter values were invalid:"
            f" Input collection [{', '.join(map(str, members))}] contains duplicates."
        )
    return sum(check_value({kind[0]: member}) for member in members)


def _number(text: str) -> int:
    # nearly every number is a short one
    if not (text.isdigit() and len(text) <= _MOST_DIGITS):
        found = _NUMBER.fullmatch(text)
        if found is None:
            raise refusal(f"The parameter cannot be converted to a numeric value: {text}")
        digits = f"{found[1]}{found[2] or ''}".strip("0")
        if len(digits) > _MOST_DIGITS:
            raise refusal("Attempting to store more than 38 significant digits in a Number")
    return (len(text.lstrip("-")) + 3) // 2


def batch_gets(request: Item) -> Iterator[tuple[str, list[Key], Item]]:
    """Tables, keys and options of all that BatchGetItem is to read."""
    wanted = request["RequestItems"]
    if sum(len(options["Keys"]) for options in wanted.values()) > 100:
        raise refusal("Too many items requested for the BatchGetItem call")
    for table, options in wanted.items():
        keys = [key_of(table, key) for key in options["Keys"]]
        _check_different(keys)
        yield table, keys, options


def batch_writes(request: Item) -> list[tuple[str, Item]]:
    """Table and change of all that BatchWriteItem is to write."""
    changes = [(t, change) for t, those in request["RequestItems"].items() for change in those]
    if not 1 <= len(changes) <= 25:
        raise refusal(
            "1 validation error detected: Value at 'requestItems' failed to satisfy constraint:"
            " Map value must satisfy constraint: [Member must have length less than or equal to"
            " 25, Member must have length greater than or equal to 1]"
        )
    _check_different([(table, place(table, *change.values())) for table, change in changes])
    return changes


def transaction_parts(request: Item) -> list[tuple[str, Item]]:
    """Kind and request of all parts of a transaction."""
    parts = [next(iter(part.items())) for part in request["TransactItems"]]
    if not 1 <= len(parts) <= 100:
        raise refusal(
            "1 validation error detected: Value at 'transactItems' failed to satisfy constraint:"
            " Member must have length less than or equal to 100"
        )
    places = [(part["TableName"], place(part["TableName"], part)) for _, part in parts]
    if len(set(places)) < len(places):
        raise refusal("Transaction request cannot include multiple operations on one item")
    return parts


def place(table: str, change: Item) -> Key:
    """The key of what a change is made to."""
    return key_of_item(table, change["Item"]) if "Item" in change else key_of(table, change["Key"])


def _check_different(places: Sequence[Any]) -> None:
    if len(set(places)) < len(places):
        raise refusal("Provided list of item keys contains duplicates")


def empty_key(where: str) -> ClientError:
    """The refusal of a key without a value."""
    return refusal(
        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot"
        f" contain an empty string value. {where}"
    )
