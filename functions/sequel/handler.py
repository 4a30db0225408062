"""Lambda function for what follows the end of a job, from the stream of the `jobs` table."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Mapping
from typing import Any

from joblane.aws.clients import Clients
from joblane.compose.sequel import Settings, build
from joblane.service.job.sequel import Sequel

__all__ = ["Settings", "build", "main"]


@once
def _application() -> Sequel:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"granted": _application().handle(event["Records"])}
