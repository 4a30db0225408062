"""A process that is killed after one of its calls to AWS, and after which calls it is tried.

In a deep run that is every call. By default only those where it makes a difference: a process that
ends after a read leaves what it leaves when it ends after the write before it, and the writes of a
loop after its first are cut as the first was.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import botocore.session

from tests.support.aws import OneEach
from tests.support.depth import DEEP
from tests.support.memory import Memory

READS = ("BatchGet", "Describe", "Get", "Head", "List", "Query", "Receive", "Scan")
"""How the names of operations begin that leave what they find."""

TOLD = (
    "TableName",
    "ConditionExpression",
    "KeyConditionExpression",
    "UpdateExpression",
    "QueueUrl",
)
"""What tells kinds of one operation apart, beside the kind of row."""

NEVER = 10**9
"""After so many calls: a process that is not killed."""


@dataclass(frozen=True)
class Call:
    """A call, by its kind: the operation, the table or queue, the expressions, the kind of row."""

    kind: str
    writes: bool = True


def call_of(operation: str, parameters: dict[str, Any]) -> Call:
    """What a call was."""
    parts = [parameters]
    for part in parameters.get("TransactItems", ()):
        parts += part.values()
    told = [str(part[name]) for part in parts for name in TOLD if name in part]
    rows = [part.get(name) for part in parts for name in ("Key", "Item")]
    told += [str(row["sk"]) for row in rows if isinstance(row, dict) and "sk" in row]
    kind = re.sub(r"\d+", "0", " ".join([operation, *told]))
    return Call(kind, writes=not operation.startswith(READS))


def tell(session: botocore.session.Session, called: Callable[[Call], object]) -> None:
    """Tell of each call of a session, right after it has taken effect."""

    def after(model: Any, context: dict[str, Any], **_: Any) -> None:
        called(call_of(model.name, context["parameters"]))

    session.get_component("event_emitter").register("after-call", after)


def kills(calls: Sequence[Call]) -> list[int]:
    """After which calls to kill, 1 for the first: around each kind's first write, and the last."""
    if DEEP:
        return list(range(1, len(calls) + 1))
    writes = [number for number, call in enumerate(calls, 1) if call.writes]
    chosen, kinds = {*writes[-1:]}, set[str]()
    for before, number in zip([0, *writes], writes, strict=False):
        if calls[number - 1].kind not in kinds:
            chosen |= {before, number}
        kinds.add(calls[number - 1].kind)
    return sorted(chosen - {0}) or [1]


def gaps(calls: Sequence[Call]) -> list[int]:
    """After which calls others are to do something: once between each two kinds, and at the end.

    After reads too: what a process has read is no longer so.
    """
    if DEEP:
        return list(range(1, len(calls) + 1))
    first: dict[tuple[Call, Call], int] = {}
    for number, neighbours in enumerate(pairwise(calls), 1):
        first.setdefault(neighbours, number)
    return [*first.values(), len(calls)]


class Killed(BaseException):
    """SIGKILL, as far as the code that makes AWS calls can tell."""


class Process:
    """A process that is killed, with all of its threads, after its n-th answer of AWS."""

    def __init__(self, memory: Memory) -> None:
        self._lock = threading.Lock()
        self._left = 0
        self.calls: list[Call] = []
        """Its calls since it started."""
        session = memory.session()
        tell(session, self.answered)
        session.get_component("event_emitter").register("before-call", self.calling)
        self.clients = OneEach(session)

    def starts(self, point: int) -> None:
        """Start anew, and die after `point` answers."""
        self._left = point
        self.calls = []

    def calling(self, **_: Any) -> None:
        """Die rather than call, once its time has come."""
        if self._left <= 0:
            raise Killed

    def answered(self, call: Call) -> None:
        """Count a call, and die if it was the last one."""
        with self._lock:
            self._left -= 1
            self.calls.append(call)
        self.calling()

    def visit(self, killed_at: Callable[[int], bool], least: int = 1) -> list[Call]:
        """Let it live, then die at each point; `killed_at` says whether it came to that.

        Returns the calls of the life that was not cut.
        """
        assert not killed_at(NEVER)
        calls, points = self.calls, kills(self.calls)
        print(f"{len(calls)} calls, killed after {points}")
        assert len(calls) >= least
        for point in points:
            assert killed_at(point), f"it makes no call {point} now"
        return calls
