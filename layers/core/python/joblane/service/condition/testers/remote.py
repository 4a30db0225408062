"""Testers that another function runs: both sides of the call."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from joblane.aws.functions import CalledFunction, FunctionFailed
from joblane.service.condition.testers import BadParameters, Finding, Tester


@dataclass(frozen=True)
class RemoteTester(Tester):
    """Has the conditions of one kind tested by another function."""

    kind: str
    function: CalledFunction

    def test(self, parameter: str) -> Finding:
        """Ask the function; a condition with which it fails or is too slow blocks.

        Raises BadParameters, Unavailable.
        """
        try:
            answer = self.function({"kind": self.kind, "parameter": parameter})
        except FunctionFailed:
            return Finding(0, "could not be tested")
        if "untestable" in answer:
            raise BadParameters(answer["untestable"])
        return Finding(answer["allow"], answer["why"])


@dataclass(frozen=True)
class TesterFunction:
    """What the function `tester` does."""

    testers: Mapping[str, Tester]

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Test the condition that a RemoteTester asks about."""
        try:
            return asdict(self.testers[question["kind"]].test(question["parameter"]))
        except BadParameters as error:
            return {"untestable": str(error)}
