"""An execution's history stays below what Step Functions allows, however long it lasts."""

from typing import Any

from infra.recovery_machine import RETRIES, definition
from joblane.condition.policies import DEFAULT_POLICY
from joblane.service.condition.recover import MAX_STEPS
from joblane.testing.clock import Clock
from tests.support.machine import Execution, Machine

MOST_EVENTS = 25_000
"""Step Functions ends an execution that exceeds it ("Service quotas", standard workflows)."""


def events(rounds: int, retries: int) -> int:
    """Events of an execution that tests so often, each step failing `retries` times first."""
    left = [rounds + 1]  # Begin is a step as well
    tries = [0]

    def function(event: dict[str, Any]) -> dict[str, Any]:
        tries[0] += 1
        if tries[0] <= retries:
            raise RuntimeError
        tries[0] = 0
        left[0] -= 1
        after = "wait" if left[0] > 0 else "done"
        return {**event["progress"], "next": after, "delay_s": 1}

    machine = definition("function")
    runs = Machine(None, "", machine, function, Clock())
    execution = Execution("one", {}, machine["StartAt"], {}, 0.0)
    while execution.status == "RUNNING":
        runs.step(execution)
    assert "SUCCEEDED" == execution.status
    return execution.events


def test_the_longest_execution_whose_every_step_uses_all_its_retries_stays_below_the_limit():
    worst = events(MAX_STEPS - 1, RETRIES)
    print(f"{MAX_STEPS} steps with {RETRIES} retries each make {worst} events")
    assert 33 == events(2, RETRIES) - events(1, RETRIES)
    assert worst < MOST_EVENTS
    assert events(MAX_STEPS + 60, RETRIES) > MOST_EVENTS  # the limit is not there for nothing


def test_the_default_policy_needs_one_execution_for_its_48_hours():
    waited = tests = 0
    while waited < DEFAULT_POLICY.most_s:
        waited += DEFAULT_POLICY.delay_s(tests)
        tests += 1
    print(f"{tests} tests in 48 h make {events(tests, 0)} events")
    assert 9 == events(2, 0) - events(1, 0)
    assert tests < MAX_STEPS
