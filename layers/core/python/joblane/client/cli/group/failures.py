"""Why members of a group failed: the last lines of their standard error, those alike together."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from joblane.client.answers import is_array
from joblane.client.cli.text.formats import printable
from joblane.client.errors import JoblaneError
from joblane.formats.text import shorten
from joblane.group.states import FAILURES

if TYPE_CHECKING:
    from joblane.client.answers import JobJson
    from joblane.client.clients import Client
    from joblane.client.models import Member

MOST_READ = 100
"""Members whose output is read: the first ones that failed."""

AT_ONCE = 8
"""Members whose output is read at the same time."""

TAIL = 20
"""Lines of output among which the last one of standard error is looked for."""

LINE_CHARS = 200
"""Characters of a line that are shown."""

NAMES_CHARS = 60
"""Characters of the names of members that are shown with a line."""

MOST_SHOWN = 10
"""Kinds of failures that are shown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Members that failed alike."""

    state: str
    exit_code: int | None
    line: str
    """The last line of the standard error of the first; its reason if there is none."""
    names: list[str] = field(default_factory=list)
    """Indices of an array, agents of a broadcast."""
    indices: list[int] = field(default_factory=list)

    def text(self) -> str:
        """The members and the line, in one."""
        code = "" if self.exit_code is None else f", exit code {self.exit_code}"
        line = self.line
        if line.startswith(f"exit code {self.exit_code} "):  # which has been said
            line = "nothing on stderr"
        return printable(f"{len(self.names):,} {self.state}{code} ({self.named}): {line}")

    @property
    def named(self) -> str:
        """The names of the members, cut; indices as ranges."""
        is_indices = self.names == [str(index) for index in self.indices]
        names = indices_text(self.indices) if is_indices else ", ".join(self.names)
        return ("index " if is_indices else "") + cut_names(names, NAMES_CHARS)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "jobs": len(self.names),
            "state": self.state,
            "exit_code": self.exit_code,
            "line": self.line,
            "indices": indices_text(self.indices),
        }


def cut_names(names: str, chars: int) -> str:
    """Cut a longer list of indices or names behind a comma."""
    return names if len(names) <= chars else f"{names[:chars].rpartition(',')[0]},\u2026"


def read_failures(client: "Client", group: "JobJson") -> list[Failure]:
    """Read why the first members failed; the most frequent failure comes first."""
    states = sorted(FAILURES)
    members = list(islice(client.groups.members(group["id"], state=states), MOST_READ))
    if not members:
        return []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lines = list(pool.map(lambda member: _last_line(client, member), members))
    found: dict[tuple[object, ...], Failure] = {}
    for member, line in zip(members, lines, strict=True):
        alike = (member.state, member.exit_code, re.sub(r"[0-9]+", "0", line))
        new = Failure(str(member.state), member.exit_code, line)
        failure = found.setdefault(alike, new)
        failure.indices.append(member.index)
        name = str(member.index) if is_array(group) else str(member.agent)
        failure.names.append(name)
    return sorted(found.values(), key=lambda each: (-len(each.names), each.indices))


def failure_lines(failures: Sequence[Failure], failed: int) -> Iterator[str]:
    """A line for each kind of failure, of so many members that failed."""
    for failure in failures[:MOST_SHOWN]:
        yield failure.text()
    if more := failures[MOST_SHOWN:]:
        yield f"{sum(len(each.names) for each in more):,} in other ways"
    if (rest := failed - sum(len(each.names) for each in failures)) > 0:
        yield f"{rest:,} more, whose output was not read"


def indices_text(indices: Sequence[int]) -> str:
    """Indices as ranges, such as `3,5-9`."""
    from joblane.group.array import as_ranges  # pydantic takes 0.2 s

    return as_ranges(indices)


def _last_line(client: "Client", member: "Member") -> str:
    """The last line of a member's standard error; its reason if there is none."""
    found = ""
    if member.id is not None and member.started_at is not None:
        try:
            records = client.log_page(member.id, tail=TAIL).entries
        except JoblaneError:  # it is deleted, or this one answer does not come: the reason is here
            records = []
        for record in records:
            if record.stream == "stderr" and (text := (record.text or "").strip()):
                found = text.splitlines()[-1].strip()
    return shorten(found or member.reason, LINE_CHARS)
