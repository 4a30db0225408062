"""Lambda function that handles the messages of the dead-letter queue and of `alternate`."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.job.dead_letters import DeadLetterStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.notify.topic import Topic
from joblane.aws.parameters import read_written_at
from joblane.aws.queue.lanes import Lanes
from joblane.deployment.names import (
    LANES,
    alternate_name,
    sequel_mapping_parameter_name,
    sequel_name,
)
from joblane.service.job.dead_letters import DeadLetters
from joblane.service.job.expired_records import is_of_new_mapping
from joblane.service.job.operations import Operations
from joblane.state.retention import Retention


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    topic: str
    retention: Json[Retention]


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> DeadLetters:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    ssm = cache(lambda: clients.make("ssm"))
    mapping = sequel_mapping_parameter_name(settings.deployment)
    jobs = JobStore(dynamodb, settings.jobs_table)
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    return DeadLetters(
        DeadLetterStore(dynamodb, settings.jobs_table),
        jobs,
        Operations(jobs, lanes, settings.retention),
        publish=Topic(clients.make("sns"), settings.topic).publish,
        retention=settings.retention,
        alternate=alternate_name(settings.deployment),
        is_of=lambda lane, queue: lane in {lanes.name(queue, each) for each in LANES},
        is_expected=lambda expired: is_of_new_mapping(
            expired, sequel_name(settings.deployment), lambda: read_written_at(ssm(), mapping)
        ),
        clock=clock,
        log=Logger(),
    )


@once
def _application() -> DeadLetters:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
