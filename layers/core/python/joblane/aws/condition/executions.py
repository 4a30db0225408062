"""Adapter for the recovery state machine: starts its executions."""

import json
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.condition.state import ConditionState

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions.client import SFNClient


class Executions:
    """Starts executions."""

    def __init__(self, client: "SFNClient", machine_arn: str) -> None:
        self._client = client
        self._machine_arn = machine_arn

    def start(self, state: ConditionState) -> None:
        """Start the execution of a condition's generation, unless it was started before.

        Names cannot be reused for 90 days, so a late repetition does nothing.
        """
        try:
            self._client.start_execution(
                stateMachineArn=self._machine_arn,
                name=state.execution_name,
                input=json.dumps({"condition": state.condition, "generation": state.generation}),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
                raise
