"""Lambda function that handles the messages of dead-letter queues and of the queue `alternate`."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.dead_letters import DeadLetterStore
from joblane.aws.environment import Environment
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import Lanes
from joblane.aws.topic import Topic
from joblane.deployment.names import alternate_name
from joblane.job.retention import Retention
from joblane.service.dead_letters import DeadLetters, Received
from joblane.service.operations import Operations


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    topic: str
    retention: Json[Retention]


@dataclass(frozen=True)
class Function:
    """Handles batches of SQS messages."""

    letters: DeadLetters
    logger: Logger

    def handle(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Handle each record of an SQS event; returns the ids of those that failed."""
        failed: list[str] = []
        for record in records:
            try:
                self.letters.handle(_received(record))
            except Exception:
                # Whatever it was, the other letters must not wait for it. SQS delivers this
                # one again, and does not count it as an error of the function.
                self.logger.exception("dead letter not handled", message_id=record.get("messageId"))
                failed.append(str(record.get("messageId")))
        return failed


def _received(record: Mapping[str, Any]) -> Received:
    """Read a record of an SQS event. Raises KeyError."""
    return Received(
        message_id=str(record["messageId"]),
        body=str(record["body"]),
        queue=str(record["eventSourceARN"]).rpartition(":")[2],
        receives=str(record.get("attributes", {}).get("ApproximateReceiveCount", "?")),
        reason=record.get("messageAttributes", {}).get("reason", {}).get("stringValue"),
    )


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Function:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    jobs = JobStore(dynamodb, settings.jobs_table)
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    logger = Logger()
    letters = DeadLetters(
        DeadLetterStore(dynamodb, settings.jobs_table),
        jobs,
        Operations(jobs, lanes, settings.retention),
        publish=Topic(clients.make("sns"), settings.topic).publish,
        retention=settings.retention,
        alternate=alternate_name(settings.deployment),
        clock=clock,
        log=logger,
    )
    return Function(letters, logger)


@once
def _application() -> Function:
    return build(Settings.read(), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
