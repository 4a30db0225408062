"""Lambda function behind the API's routes of jobs."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from typing import Any

from joblane.aws.clients import Clients
from joblane.compose.submission import Settings, build
from joblane.http.application import Application

__all__ = ["Settings", "build", "main"]


@once
def _application() -> Application:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
