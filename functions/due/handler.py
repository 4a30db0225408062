"""Lambda function that starts what schedules start, when it is due."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Mapping
from typing import Any, Protocol

from joblane.aws.clients import Clients
from joblane.compose.due import Settings, build
from joblane.service.schedule.due_reader import DueReader

__all__ = ["Settings", "build", "main"]

RESERVE_S = 10.0
"""Seconds before the end of a call at which a requeue goes no further."""


class Context(Protocol):
    """What this function uses of Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends this invocation."""


@once
def _application() -> DueReader:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""

    def left_s() -> float:
        return context.get_remaining_time_in_millis() / 1000 - RESERVE_S

    failed = _application().handle(event["Records"], left_s)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
