"""Runs Step Functions executions in this process: the real definition, a clock that jumps.

As much of the Amazon States Language as our state machine uses: Task with Retry, Choice on a
string, Wait with SecondsPath, Succeed, Fail. The memory keeps the executions (and refuses names
that are taken); it does not run them. History events are counted as Step Functions writes them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from infra.recovery_machine import Definition
from joblane.testing.clock import Clock

State = dict[str, Any]


class Fatal(Exception):
    """Stands for trouble that outlasts all retries of a step."""


@dataclass
class Execution:
    """One execution, where it is."""

    name: str
    input: State
    state: str
    data: State
    due: float
    events: int = 1  # ExecutionStarted
    retries: int = 0
    calls: list[str] = field(default_factory=list)
    status: str = "RUNNING"


class Machine:
    """Runs the executions that the memory holds, each against one function."""

    def __init__(
        self,
        stepfunctions: Any,
        arn: str,
        definition: Definition,
        function: Callable[[State], State],
        clock: Clock,
    ) -> None:
        self._stepfunctions = stepfunctions
        self._arn = arn
        self._definition = definition
        self._function = function
        self._clock = clock
        self.executions: dict[str, Execution] = {}

    def running(self) -> list[Execution]:
        """Executions that have not ended."""
        self._find_new()
        return [e for e in self.executions.values() if e.status == "RUNNING"]

    def run(self, seconds: float = float("inf"), rounds: int = 2000) -> None:
        """Let time pass, or all that there is to do happen."""
        end = self._clock.now + seconds
        for _ in range(rounds):
            due = min(self.running(), key=lambda e: e.due, default=None)
            if due is None or due.due > end:
                break
            self._clock.now = max(self._clock.now, due.due)
            self.step(due)
        else:
            raise AssertionError(f"still at it after {rounds} steps")
        if end != float("inf"):
            self._clock.now = end

    def _find_new(self) -> None:
        found = self._stepfunctions.list_executions(stateMachineArn=self._arn)
        for listed in found["executions"]:
            name, arn = listed["name"], listed["executionArn"]
            if name not in self.executions:
                described = self._stepfunctions.describe_execution(executionArn=arn)
                data = json.loads(described["input"])
                self.executions[name] = Execution(
                    name, data, self._definition["StartAt"], data, self._clock.now
                )

    def step(self, execution: Execution) -> None:
        """Do what is next in one execution."""
        state = self._definition["States"][execution.state]
        match state["Type"]:
            case "Task":
                self._task(execution, state)
            case "Choice":
                execution.events += 2
                word = execution.data[state["Choices"][0]["Variable"].removeprefix("$.")]
                execution.state = next(
                    (c["Next"] for c in state["Choices"] if c["StringEquals"] == word),
                    state["Default"],
                )
            case "Wait":
                execution.events += 2
                seconds = execution.data[state["SecondsPath"].removeprefix("$.")]
                assert isinstance(seconds, int)
                execution.due = self._clock.now + seconds
                execution.state = state["Next"]
            case "Succeed":
                execution.events += 3  # entered, exited, ExecutionSucceeded
                execution.status = "SUCCEEDED"
            case _:
                execution.events += 2  # FailStateEntered, ExecutionFailed
                self._fail(execution)

    def _task(self, execution: Execution, state: State) -> None:
        parameters = state["Parameters"]["Payload"]
        (retry,) = state["Retry"]
        event = {"do": parameters["do"], "progress": execution.data}
        execution.calls.append(parameters["do"])
        execution.events += 3  # TaskScheduled, TaskStarted, TaskSucceeded or TaskFailed
        try:
            execution.data = _json_of(self._function(_json_of(event)))
        except Exception as error:  # noqa: BLE001 - States.ALL
            if isinstance(error, Fatal) or execution.retries == retry["MaxAttempts"]:
                execution.events += 2  # TaskStateEntered, ExecutionFailed
                self._fail(execution)
                return
            delay = retry["IntervalSeconds"] * retry["BackoffRate"] ** execution.retries
            execution.due = self._clock.now + delay
            execution.retries += 1
            return
        execution.retries = 0
        execution.events += 2  # TaskStateEntered, TaskStateExited
        execution.state = state["Next"]

    def _fail(self, execution: Execution) -> None:
        execution.status = "FAILED"
        # As the rule of infra/recovery.py hands it on.
        self._function({"detail": {"status": "FAILED", "input": json.dumps(execution.input)}})


def _json_of(value: State) -> State:
    """What is left of a value after its way through JSON."""
    found: State = json.loads(json.dumps(value))
    return found
