"""Whether a job may start: the recovery function is asked to test what the job requires.

It tests rather than the agent, so that there is one opinion of a condition and one network it is
seen from (docs/decisions/0302).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient


@dataclass(frozen=True, slots=True)
class Blocking:
    """A condition that keeps a job from starting."""

    condition: str
    why: str
    hopeless: bool
    """It can never be tested as it is named: the job fails with `why`, waiting is no use."""


class NoAnswer(Exception):
    """The recovery function failed; ask again later."""


class Requirements:
    """Asks the recovery function. Its client must wait for up to 30 s."""

    def __init__(self, client: "LambdaClient", function: str) -> None:
        self._client = client
        self._function = function

    def first_blocking(self, conditions: Sequence[str]) -> Blocking | None:
        """Test conditions in order; returns the first that blocks, None if none does.

        One call, some 50 ms and the time of the tests; none at all without conditions. Raises
        NoAnswer, ClientError and BotoCoreError.
        """
        if not conditions:
            return None
        answer = self._client.invoke(
            FunctionName=self._function,
            Payload=json.dumps({"do": "check", "conditions": list(conditions)}).encode(),
        )
        text = answer["Payload"].read()
        if answer.get("FunctionError"):
            raise NoAnswer(f"{self._function} failed with {answer['FunctionError']}")
        found = json.loads(text)
        if found["blocking"] is None:
            return None
        return Blocking(found["blocking"], found["why"], found["hopeless"])
