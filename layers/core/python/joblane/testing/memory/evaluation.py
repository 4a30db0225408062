"""What parsed expressions of DynamoDB do: read attributes, compare them, and update items."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from botocore.exceptions import ClientError

Item = dict[str, Any]
Values = Mapping[str, Item]
"""The values of a request's placeholders."""

Read = Callable[[Item, Values], Any]
Test = Callable[[Item, Values], bool]
Names = tuple[str, ...]
"""The way to an attribute: its name, or those of maps around it."""

ORDERED = {"S", "N", "B"}
"""Types of which one value is before another."""


def refusal(message: str, code: str = "ValidationException") -> ClientError:
    """What a client of DynamoDB raises."""
    return ClientError({"Error": {"Code": code, "Message": message}}, "DynamoDB")


@dataclass(frozen=True)
class Operand:
    """An attribute, a value, or what a function makes of them."""

    read: Read
    kind: str | None = None
    """The type, where the expression says it."""
    names: Names = ()
    """The way to it, for an attribute."""


@dataclass(frozen=True)
class Action:
    """A change by an update expression."""

    clause: str
    names: Names
    operand: Operand | None


def make_test(sign: str, operands: Sequence[Operand]) -> Test:
    """Make the test of a comparison or of begins_with."""
    first, second, *third = [operand.read for operand in operands]
    match sign:
        case "BETWEEN":
            (high,) = third
            return lambda item, values: (
                compare(">=", found := first(item, values), second(item, values))
                and compare("<=", found, high(item, values))
            )
        case "begins_with":
            return lambda item, values: _begins_with(first(item, values), second(item, values))
    return lambda item, values: compare(sign, first(item, values), second(item, values))


def read_at(names: Names) -> Read:
    """Make what reads the attribute at a path."""
    if len(names) == 1:
        (name,) = names
        return lambda item, _values: item.get(name)

    def read(item: Item, _values: Values) -> Any:
        found: Any = item
        for number, name in enumerate(names):
            found = (found if number == 0 else found.get("M", {})).get(name)
            if found is None:
                return None
        return found

    return read


def read_or(found: Any, other: Operand, item: Item, values: Values) -> Any:
    """Return what was found, or what another operand reads: if_not_exists."""
    return other.read(item, values) if found is None else found


def require(value: Any, kind: str) -> Any:
    """What an operand of an update holds."""
    if value is None:
        raise refusal(
            "The provided expression refers to an attribute that does not exist in the item"
        )
    if kind not in value:
        raise refusal("An operand in the update expression has an incorrect data type")
    return value[kind]


def _begins_with(value: Any, start: Any) -> bool:
    if value is None or start is None or value.keys() != start.keys():
        return False
    ((kind, content),) = value.items()
    return kind in {"S", "B"} and bool(content.startswith(start[kind]))


def size_of(value: Any) -> Item | None:
    """Return the size of an attribute, as the function of that name; None if it has none."""
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind in {"N", "BOOL", "NULL"}:
        return None
    return {"N": str(len(content.encode() if kind == "S" else content))}


def compare(sign: str, a: Any, b: Any) -> bool:
    """Compare two attributes; None is one that is not there."""
    if a is None or b is None:
        return sign == "<>"
    if sign in {"=", "<>"}:
        return (a == b or (a.keys() == b.keys() and _same(a, b))) is (sign == "=")
    if a.keys() != b.keys() or not a.keys() <= ORDERED:
        return False
    x, y = order(a), order(b)
    found: bool = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[sign]
    return found


def _same(a: Item, b: Item) -> bool:
    """Whether unequal spellings of one type mean the same."""
    if "N" in a:
        return Decimal(a["N"]) == Decimal(b["N"])
    return "SS" in a and set(a["SS"]) == set(b["SS"])


def order(value: Mapping[str, Any]) -> Any:
    """What values of one type are ordered by."""
    if "N" in value:
        return Decimal(value["N"])
    return value["S"].encode() if "S" in value else value["B"]


def update_item(old: Item, actions: Sequence[Action], values: Values) -> Item:
    """The item after an update; every operand is what it was before it."""
    after = dict(old)
    for action in actions:
        given = None if action.operand is None else action.operand.read(old, values)
        match action.clause:
            case "SET":
                if given is None:
                    raise refusal(
                        "The provided expression refers to an attribute that does not exist in the"
                        " item"
                    )
                _put(after, action.names, given)
            case "REMOVE":
                _put(after, action.names, None)
            case "ADD":
                _put(after, action.names, _add(read_at(action.names)(old, values), given))
            case _:
                raise AssertionError(f"no {action.clause} here")
    return after


def _put(item: Item, names: Names, value: Any) -> None:
    """Set or remove an attribute of a new item; maps within it are those of the old one."""
    first, *rest = names
    if rest:
        inner = item.get(first)
        if inner is None or "M" not in inner:
            raise refusal(
                "The document path provided in the update expression is invalid for update"
            )
        members = dict(inner["M"])
        _put(members, tuple(rest), value)
        value = {"M": members}
    if value is None:
        item.pop(first, None)
    else:
        item[first] = value


def _add(old: Any, given: Any) -> Item:
    if old is None:
        return dict(given)
    if old.keys() != given.keys():
        raise refusal("An operand in the update expression has an incorrect data type")
    if "N" in given:
        return {"N": str(Decimal(old["N"]) + Decimal(given["N"]))}
    ((kind, members),) = given.items()
    return {kind: sorted({*old[kind], *members})}
