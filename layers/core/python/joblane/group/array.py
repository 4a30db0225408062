"""Arrays: which jobs one submission makes, and their indices. Pure.

Members of a group are numbered from 0. In an array each of them has an index as well, which its
submitter chose (`1-99:2` has 1, 3, 5 ...) and which it keeps for ever, with its job's id.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from joblane.errors import Failure

MOST_MEMBERS: Final = 10_000
"""Most jobs of a group."""

MOST_INDEX: Final = 999_999_999
"""Highest index of a range."""

MAX_VALUES_BYTES: Final = 262_144
"""Longest values of an array together, as JSON in UTF-8."""

MAX_VALUE_BYTES: Final = 128 * 1024 - 32
"""Longest text of one value: Linux takes no longer variable (MAX_ARG_STRLEN), and
`JOBLANE_ARRAY_VALUE=` is a part of it."""

AT_ONCE: Final = 1000
"""Jobs of a larger array that run at once, unless it says how many: its messages would delay its
tenant's later jobs."""

MOST_SELECTED: Final = 100_000
"""Longest text of a selection of indices: 10,000 of nine digits, each written out."""


def value_text(value: object) -> str:
    """A value as a job reads it: a text as it is, anything else as JSON in its shortest form."""
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _value(value: object) -> object:
    text = value_text(value)
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_VALUE_BYTES:
        raise ValueError(f"takes {size} bytes; a value may take {MAX_VALUE_BYTES}")
    return value


def _fit(values: tuple[Any, ...]) -> tuple[Any, ...]:
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_VALUES_BYTES:
        raise ValueError(
            f"take {size} bytes as JSON; together they may take {MAX_VALUES_BYTES}. Upload longer "
            "ones as input files, and name these"
        )
    return values


class Indices(NamedTuple):
    """The indices of an array's members: `first`, `first + step`, and so on."""

    first: int = 0
    step: int = 1

    def of(self, number: int) -> int:
        """The index of a member."""
        return self.first + number * self.step

    def number(self, index: int) -> int | None:
        """The number of the member with an index, in an array without an end; None if none has."""
        number, rest = divmod(index - self.first, self.step)
        return None if rest or number < 0 else number


class Array(BaseModel):
    """Which jobs a submission makes, one for each index: `size`, a range, or `values`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    size: Annotated[int, Field(ge=1, le=MOST_MEMBERS)] | None = None
    """Number of jobs, with the indices 0 to `size - 1`."""
    first: Annotated[int, Field(ge=0, le=MOST_INDEX)] | None = None
    """First index of a range, with `last`."""
    last: Annotated[int, Field(ge=0, le=MOST_INDEX)] | None = None
    """Last index of the range; it is one of them if the steps meet it."""
    step: Annotated[int, Field(ge=1, le=MOST_INDEX)] | None = None
    """With `first` and `last`: from one index to the next, 1 by default."""
    values: (
        Annotated[
            tuple[Annotated[Any, AfterValidator(_value)], ...],
            Field(min_length=1, max_length=MOST_MEMBERS),
            AfterValidator(_fit),
        ]
        | None
    ) = None
    """A value for each job, any JSON, together at most 262,144 bytes; the indices are 0, 1, 2 and
    so on. With a `type` each value is the params of its job."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        in_range = not self.first is self.last is self.step is None
        if [self.size is not None, in_range, self.values is not None].count(True) != 1:
            raise ValueError("must have size, or first and last, or values, and one of them only")
        if not in_range:
            return self
        if self.first is None or self.last is None:
            raise ValueError("must have both first and last for a range")
        if self.last < self.first:
            raise ValueError(f"last must be at least first, which is {self.first}")
        if self.jobs > MOST_MEMBERS:
            raise ValueError(f"makes {self.jobs} jobs; an array has at most {MOST_MEMBERS}")
        return self

    @property
    def jobs(self) -> int:
        """How many jobs it makes."""
        if self.values is not None:
            return len(self.values)
        if self.first is None or self.last is None:
            return self.size or 0
        return (self.last - self.first) // (self.step or 1) + 1

    @property
    def indices(self) -> Indices:
        """The indices of these jobs."""
        return Indices(self.first or 0, self.step or 1)

    @property
    def bare(self) -> "Array":
        """The array without its values."""
        return self if self.values is None else Array(size=len(self.values))


@dataclass(frozen=True, slots=True)
class InArray:
    """What a member of an array is told of its place."""

    index: int
    jobs: int
    """How many jobs the array has."""
    has_value: bool = False
    """Whether the array has values; the member's is in an item of its page."""

    def encode(self) -> str:
        """The attribute `array` of a member's row: `7/100`, and `7/100=` with a value."""
        return f"{self.index}/{self.jobs}{'=' if self.has_value else ''}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`. Raises ValueError."""
        index, _, jobs = text.partition("/")
        return cls(int(index), int(jobs.rstrip("=")), jobs.endswith("="))


class NotAnIndex(Failure):
    """A selection that no array, or not this one, has; the text says why."""


def as_ranges(numbers: Iterable[int], indices: Indices | None = None) -> str:
    """Members' indices as ranges, such as `1,3-5,7`; empty for none.

    Of members whose indices have a step above 1 each is written out.
    """
    of = indices or Indices()
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(set(numbers)), None]:
        index = None if number is None else of.of(number)
        if run and (index is None or index != run[1] + 1):
            parts.append(str(run[0]) if run[0] == run[1] else f"{run[0]}-{run[1]}")
            run = []
        if index is not None:
            run = [run[0] if run else index, index]
    return ",".join(parts)


def parse_ranges(text: str, members: int, indices: Indices | None = None) -> list[int]:
    """The numbers of the members that a text such as `3,5-9` selects, in order.

    Of a range those count that the array has; both of its ends must lie within the array, and one
    that selects nobody is refused. Raises NotAnIndex.
    """
    of, last = indices or Indices(), (indices or Indices()).of(members - 1)
    chosen: list[range] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part, re.ASCII)
        if match is None:
            raise NotAnIndex("must be indices and ranges of them, such as 3,5-9")
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise NotAnIndex(f"{part} must rise, such as {high}-{low}")
        if low < of.first or high > last:
            known = describe_indices(members, of)
            raise NotAnIndex(f"{part} is outside of the array, whose indices are {known}")
        lowest, highest = -((of.first - low) // of.step), (high - of.first) // of.step
        if highest < lowest:
            raise NotAnIndex(f"{part} is no index of the array: {describe_indices(members, of)}")
        chosen.append(range(lowest, highest + 1))
    return _merge(chosen)


def _merge(ranges: Iterable[range]) -> list[int]:
    """The numbers of ranges that may overlap, in order; none is looked at twice."""
    found, upto = list[int](), 0
    for each in sorted(ranges, key=lambda part: part.start):
        found.extend(range(max(each.start, upto), each.stop))
        upto = max(upto, each.stop)
    return found


def describe_indices(members: int, indices: Indices | None = None) -> str:
    """Which indices an array has, in words: `0 to 99`, `1 to 99 in steps of 2`."""
    of = indices or Indices()
    if members == 1:
        return f"{of.first} alone"
    steps = "" if of.step == 1 else f" in steps of {of.step}"
    return f"{of.first} to {of.of(members - 1)}{steps}"


def _share(text: str) -> str:
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) ?%", text, re.ASCII)
    if match is None or float(match[1]) > 100:
        raise ValueError("must be a number of jobs, or a share from 0 % to 100 %, such as 5 %")
    return text


Tolerance = Annotated[
    Annotated[int, Field(ge=0, le=MOST_MEMBERS), Tag("[number]")]
    | Annotated[str, AfterValidator(_share), Tag("[share]")],
    Discriminator(lambda value: "[share]" if isinstance(value, str) else "[number]"),
]
"""How many jobs of a group may fail: a number, or a share such as `5 %`."""


def tolerated(tolerance: int | str | None, members: int) -> int:
    """How many of so many members may fail; of a share, the part that is whole."""
    if tolerance is None:
        return 0
    if isinstance(tolerance, int):
        return tolerance
    hundredths = round(float(tolerance.rstrip(" %")) * 100)
    return members * hundredths // 10_000
