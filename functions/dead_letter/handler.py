"""Lambda function that notifies operators.

It handles the messages of the dead-letter queue and of `alternate`, and sends the daily digest.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
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

if TYPE_CHECKING:
    from joblane.service.notify.digest import DailyDigest

SEND_DIGEST = {"task": "send-digest"}
"""The event of the daily schedule."""


class DigestPlan(BaseModel):
    """When the daily digest is sent, and what of."""

    at: str
    """Time of day in UTC: `07:00`."""
    tenants: tuple[str, ...]
    queues: dict[str, tuple[str, ...]]
    """The tenants of each queue; none means all."""


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    topic: str
    retention: Json[Retention]
    digest: Json[DigestPlan] | None = None
    """The daily digest; without it there is none, and these tables are not named."""
    counters_table: str = ""
    settings_table: str = ""


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


def build_digest(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> "DailyDigest":
    """Compose the daily digest. Raises ValueError if the deployment has none."""
    # Once a day: dead letters do not wait for these imports.
    from joblane.aws.notify.digests import DigestStore
    from joblane.aws.queue.counters import CounterStore
    from joblane.aws.queue.usage import UsageStore
    from joblane.service.notify.digest import DailyDigest

    plan = settings.digest
    if plan is None:
        raise ValueError("joblane.toml has no alerts.digest_at")
    dynamodb = clients.make("dynamodb")
    return DailyDigest(
        settings.deployment,
        plan.at,
        plan.tenants,
        plan.queues,
        JobStore(dynamodb, settings.jobs_table),
        CounterStore(dynamodb, settings.counters_table),
        UsageStore(dynamodb, settings.counters_table),
        DigestStore(dynamodb, settings.settings_table),
        Topic(clients.make("sns"), settings.topic).publish,
        clock,
        Logger(),
        pool=pool,
    )


@once
def _application() -> DeadLetters:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again.

    For `SEND_DIGEST`, of which nothing is reported, errors are raised: Lambda calls again.
    """
    if event == SEND_DIGEST:
        build_digest(Settings.read(__file__), Clients(), time.time).send()
        return {"batchItemFailures": []}
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
