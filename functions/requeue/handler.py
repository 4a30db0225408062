"""Lambda function that EventBridge calls every minute to do what has become due."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from typing import Protocol

from aws_lambda_powertools.logging import Logger

from joblane.aws.clients import Clients
from joblane.compose.requeue import Settings, build
from joblane.service.job.requeue import Requeue

__all__ = ["Settings", "build", "main"]


class Context(Protocol):
    """What this function uses of Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends this invocation."""


@once
def _application() -> tuple[Requeue, Logger]:
    return build(Settings.read(__file__), Clients(), time.time), Logger()


def main(_event: object, context: Context) -> dict[str, int]:
    """Answer EventBridge's call of every minute."""
    requeue, log = _application()
    done = dict(requeue.run(lambda: context.get_remaining_time_in_millis() / 1000))
    log.info("due jobs handled", extra={"counts": done})
    return done
