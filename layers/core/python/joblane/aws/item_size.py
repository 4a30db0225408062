"""Size of an item as DynamoDB counts it ("DynamoDB item sizes and formats").

DynamoDB says of numbers only about how long they are, so a size is a range.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

UNIT_BYTES = 1024
"""What a write unit pays for."""


class Size(NamedTuple):
    """Bytes of an item, at least and at most."""

    least: int
    most: int


def left_in_unit(item: Mapping[str, object]) -> int:
    """Bytes that can be added to an item without another write unit, for sure; 0 if none are."""
    size = item_size(item)
    paid = -(-size.least // UNIT_BYTES) * UNIT_BYTES
    return max(0, paid - size.most)


def item_size(item: Mapping[str, object]) -> Size:
    """Measure an item; attributes that are None are not written."""
    sizes = [(len(n.encode()), _size(v)) for n, v in item.items() if v is not None]
    return _sum(Size(name + value.least, name + value.most) for name, value in sizes)


def _size(value: object) -> Size:
    match value:
        case str():
            return _exact(len(value.encode()))
        case bytes():
            return _exact(len(value))
        case bool():
            return _exact(1)
        case int():
            digits = str(abs(value))
            least, most = len(digits.strip("0")), len(digits)
            return Size(1 + (least + 1) // 2, 2 + (most + 1) // 2)
        case Mapping():
            inner = (_sum((_exact(1 + len(n.encode())), _size(v))) for n, v in value.items())
            return _sum(chain((_exact(3),), inner))
        case Sequence():
            inner = (_sum((_exact(1), _size(each))) for each in value)
            return _sum(chain((_exact(3),), inner))
    raise TypeError(f"no attribute of DynamoDB: {type(value).__name__}")


def _exact(size: int) -> Size:
    return Size(size, size)


def _sum(sizes: Iterable[Size]) -> Size:
    least = most = 0
    for size in sizes:
        least, most = least + size.least, most + size.most
    return Size(least, most)
