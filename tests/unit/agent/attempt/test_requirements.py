"""What an agent makes of the recovery function's answers before a start."""

import io
import json
from typing import Any, cast

import pytest

from joblane.aws.condition.requirements import Requirements
from joblane.aws.functions import FunctionFailed
from joblane.condition.blocking import Blocking


class Function:
    """Stands for Lambda's client."""

    def __init__(self, answer: object, error: str | None = None) -> None:
        self._answer = answer
        self._error = {} if error is None else {"FunctionError": error}
        self.asked: list[Any] = []

    def invoke(self, **request: Any) -> dict[str, Any]:
        """Answer as set."""
        self.asked.append((request["FunctionName"], json.loads(request["Payload"])))
        return {"Payload": io.BytesIO(json.dumps(self._answer).encode()), **self._error}


def requirements(function: Function) -> Requirements:
    return Requirements(cast("Any", function), "joblane-recovery")


def test_all_conditions_are_asked_for_in_one_call():
    function = Function({"blocking": None})
    assert None is requirements(function).find_blocking(("app:a", "app:b"))
    asked = {"do": "check", "conditions": ["app:a", "app:b"]}
    assert [("joblane-recovery", asked)] == function.asked


def test_without_conditions_nobody_is_asked():
    function = Function({"blocking": None})
    assert None is requirements(function).find_blocking(())
    assert [] == function.asked


def test_what_blocks_is_named():
    answer = {"blocking": "app:a", "why": "declared down", "untestable": False}
    found = requirements(Function(answer)).find_blocking(("app:a",))
    assert Blocking("app:a", "declared down", untestable=False) == found


def test_a_function_that_fails_is_no_answer():
    function = Function({"errorMessage": "boom"}, "Unhandled")
    with pytest.raises(FunctionFailed, match="joblane-recovery failed with Unhandled"):
        requirements(function).find_blocking(("app:a",))
