"""Adapters for Lambda functions: called for their answer, or asked for a call."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from joblane.aws.errors import translated
from joblane.errors import Failure

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient


class FunctionFailed(Failure):
    """The function failed or took too long."""

    retryable = True


class CalledFunction:
    """A function. `client` makes the client when it is first needed.

    It must wait for as long as the function may take.
    """

    def __init__(self, client: "Callable[[], LambdaClient]", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, event: Mapping[str, Any]) -> Any:
        """Call the function; returns its answer. Raises FunctionFailed, Unavailable."""
        answer = self._client().invoke(FunctionName=self._name, Payload=json.dumps(event).encode())
        text = translated(answer["Payload"].read)()
        if answer.get("FunctionError"):
            raise FunctionFailed(f"{self._name} failed with {answer['FunctionError']}")
        return json.loads(text)


class StartedFunction:
    """A function that is to be called soon, by Lambda's own queue.

    `client` makes the client when it is first needed.
    """

    def __init__(self, client: "Callable[[], LambdaClient]", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Ask for a call. Raises Unavailable."""
        payload = json.dumps(event).encode()
        self._client().invoke(FunctionName=self._name, InvocationType="Event", Payload=payload)
