"""LocalStack runs the recovery state machine as tests/support/machine.py does.

Each runs the deployed definition against the real function, in a world of its own: which steps are
called when, with what, how it ends, and how many events its history has must be the same.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.recovery_machine import RETRIES, Definition
from joblane.state.lifecycle import State
from tests.infra.synthesis import Deployment
from tests.infra.templates import resolve
from tests.second_opinion.engines import Engine
from tests.support.machine import Execution, Machine
from tests.support.recovery import MACHINE_ARN, World, in_memory

POLICY = {"http": {"policy": "exponential", "first_s": 20, "longest_s": 120, "most_s": 900}}
ADDRESS = "http:https://api.example.com/health"
JOBS = 25

Event = dict[str, Any]


@dataclass
class Run:
    """An execution: what the function was asked when, and how it ended."""

    calls: list[tuple[float, Event]] = field(default_factory=list)
    status: str = ""
    events: int = 0
    jobs: list[str] = field(default_factory=list)
    """The ids of the jobs that waited."""
    states: list[State] = field(default_factory=list)
    """Their states at the end."""

    @property
    def steps(self) -> list[str]:
        """The steps that were called."""
        return [event["do"] for _, event in self.calls]


@dataclass(frozen=True)
class Story:
    """What happens to a condition."""

    allow_from_s: float | None = None
    """After so many seconds it holds for ten jobs a test; None: never."""
    bad: str | None = None
    """Why it cannot be tested."""
    failing: range = range(0)
    """Calls of the function that fail, counted from 0."""
    unknown: int | None = None
    """The call that is answered with a step that there is not."""


def begin(story: Story, run: Run) -> tuple[World, Callable[[Event], Event]]:
    """Let jobs wait for a condition; returns their world and the function."""
    world = in_memory()
    world.policies = POLICY
    run.jobs = world.submit_and_block(ADDRESS, JOBS)
    began = world.clock()

    def function(event: Event) -> Event:
        if "detail" in event:  # the rule of infra/recovery.py
            return {}
        number = len(run.calls)
        run.calls.append((world.clock() - began, event))
        if number in story.failing:
            raise RuntimeError
        holds = story.allow_from_s is not None and world.clock() - began >= story.allow_from_s
        world.http.allow, world.http.bad = 10 if holds else 0, story.bad
        answer = world.function(event)
        return {**answer, "next": "dance"} if number == story.unknown else answer

    return world, function


def start_execution(
    world: World, definition: Definition, function: Any
) -> tuple[Machine, Execution]:
    """The execution that the first of the jobs has started."""
    client = world.aws.clients.make("stepfunctions")
    machine = Machine(client, MACHINE_ARN, definition, function, world.clock)
    (execution,) = machine.running()
    return machine, execution


def ours(definition: Definition, story: Story) -> Run:
    """Run it by our interpreter."""
    run = Run()
    world, function = begin(story, run)
    machine, execution = start_execution(world, definition, function)
    while execution.status == "RUNNING":
        world.clock.now = max(world.clock.now, execution.due)
        machine.step(execution)
    run.status, run.events = execution.status, execution.events
    run.states = world.states(run.jobs)
    return run


def theirs(localstack: Engine, definition: Definition, story: Story) -> Run:
    """Run it by LocalStack's."""
    run = Run()
    world, function = begin(story, run)
    _, execution = start_execution(world, definition, function)
    request = {"definition": json.dumps(definition), "input": execution.input}
    answer = localstack.ask(request)
    while "status" not in answer:
        if "wait" in answer:
            world.clock.now += answer["wait"]
            answer = localstack.ask({})
        else:
            said: Event
            try:
                said = {"payload": function(answer["invoke"])}
            except RuntimeError:
                said = {"error": "RuntimeError"}
            answer = localstack.ask(said)
    run.status, run.events = answer["status"], len(answer["history"])
    run.states = world.states(run.jobs)
    return run


@pytest.fixture(name="definition", scope="module")
def _definition(varied: Deployment) -> Definition:
    machine = varied.one("AWS::StepFunctions::StateMachine")
    found: Definition = json.loads(resolve(machine["DefinitionString"]))
    return found


STORIES = {
    "it holds at once": (Story(allow_from_s=0), "SUCCEEDED", "resubmit"),
    "it holds after a while": (Story(allow_from_s=200), "SUCCEEDED", "resubmit"),
    "it never holds": (Story(), "SUCCEEDED", "give_up"),
    "it cannot be tested": (Story(bad="no such host"), "SUCCEEDED", "give_up"),
    "a step fails and is repeated": (
        Story(allow_from_s=0, failing=range(1, 1 + RETRIES)),
        "SUCCEEDED",
        "resubmit",
    ),
    "a step fails for good": (Story(failing=range(1, 99)), "FAILED", "test"),
    "the function names an unknown step": (Story(unknown=1), "FAILED", "test"),
}


@pytest.mark.parametrize("name", STORIES)
def test_both_run_it_alike(localstack: Engine, definition: Definition, name: str) -> None:
    story, status, last = STORIES[name]
    one, two = ours(definition, story), theirs(localstack, definition, story)
    print(f"{name}: {len(one.calls)} calls, {one.events} events, {one.calls[-1][0]:.0f} s")
    assert (status, last) == (one.status, one.steps[-1])
    assert one == two
