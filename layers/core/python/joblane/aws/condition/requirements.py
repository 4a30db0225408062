"""Adapter for the recovery function: asks it whether a job's conditions let the job start.

The function tests rather than the agent, so that every condition is tested in one place and from
one network (docs/decisions/0302).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from joblane.aws.functions import CalledFunction
from joblane.condition.blocking import Blocking, decode

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient


class Requirements:
    """Asks the recovery function. Its client must wait for up to 30 s."""

    def __init__(self, client: "LambdaClient", function: str) -> None:
        self._recovery = CalledFunction(lambda: client, function)

    def find_blocking(self, conditions: Sequence[str]) -> Blocking | None:
        """Test conditions in order; returns the first that blocks, None if none does.

        One call, some 50 ms and the time of the tests; no call without conditions. Raises
        FunctionFailed, Unavailable.
        """
        if not conditions:
            return None
        return decode(self._recovery({"do": "check", "conditions": list(conditions)}))
