"""Adapters for Lambda functions: called for their answer, or asked for a call."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_lambda.client import LambdaClient


class NoAnswer(Exception):
    """The function failed or took too long; ask again later."""


class CalledFunction:
    """A function. `client` makes the client when it is first needed.

    It must wait for as long as the function may take.
    """

    def __init__(self, client: "Callable[[], LambdaClient]", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, event: Mapping[str, Any]) -> Any:
        """Call the function; returns its answer. Raises NoAnswer, ClientError, BotoCoreError."""
        answer = self._client().invoke(FunctionName=self._name, Payload=json.dumps(event).encode())
        text = answer["Payload"].read()
        if answer.get("FunctionError"):
            raise NoAnswer(f"{self._name} failed with {answer['FunctionError']}")
        return json.loads(text)


class StartedFunction:
    """A function that is to be called soon, by Lambda's own queue.

    `client` makes the client when it is first needed.
    """

    def __init__(self, client: "Callable[[], LambdaClient]", name: str) -> None:
        self._client = client
        self._name = name

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Ask for a call. Raises ClientError and BotoCoreError."""
        payload = json.dumps(event).encode()
        self._client().invoke(FunctionName=self._name, InvocationType="Event", Payload=payload)
