"""The recovery of blocked jobs: executions of its state machine."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from joblane.service.condition.recover import Recovery
from joblane.service.condition.testers import BATCH, Finding, Tester
from joblane.testing.cloud import Cloud, read_input

TESTED: Final = ("http", "tcp")
"""Kinds of conditions that a deployment tests, and a test lists when they do not hold."""


@dataclass(frozen=True)
class ListedTester(Tester):
    """Says that a condition blocks while a test lists it."""

    kind: str
    down: Collection[str]
    """Names of conditions."""

    def test(self, parameter: str) -> Finding:
        """See Tester."""
        name = f"{self.kind}:{parameter}"
        if name in self.down:
            return Finding(0, f"the test says that {name} does not hold")
        return Finding(BATCH, f"{name} holds")


@dataclass
class Execution:
    """An execution, and its next step."""

    data: dict[str, Any]
    due: float
    step: str = "begin"


@dataclass
class Executions:
    """Runs executions as `infra/recovery_machine.py` defines them: the function names each step."""

    cloud: Cloud
    recovery: Recovery
    clock: Callable[[], float]
    _known: dict[str, Execution] = field(default_factory=dict)

    @property
    def next_at(self) -> float | None:
        """When the next step is due, in Unix seconds; None without executions."""
        open_ = (each.due for each in self._known.values() if each.step != "done")
        return min(open_, default=None)

    def run(self) -> bool:
        """Make the steps that are due; returns whether there were any."""
        for name, text in self.cloud.executions.items():
            self._known.setdefault(name, Execution(read_input(text), self.clock()))
        due = [e for e in self._known.values() if e.step != "done" and e.due <= self.clock()]
        for execution in due:
            answer = self.recovery.answer({"do": execution.step, "progress": execution.data})
            execution.data, execution.step = answer, answer["next"]
            if execution.step == "wait":
                execution.due, execution.step = self.clock() + answer["delay_s"], "test"
        return bool(due)
