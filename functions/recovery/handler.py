"""Lambda function that runs the steps of recovery, and tests conditions before jobs start."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from typing import Any

from joblane.aws.clients import Clients
from joblane.compose.recovery import Settings, build
from joblane.service.condition.recover import Recovery

__all__ = ["Settings", "build", "main"]


@once
def _application() -> Recovery:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Answer one event."""
    return _application().answer(event)
