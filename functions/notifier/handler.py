"""Lambda function that delivers notifications about jobs.

It reads no table: all that a notification says is in its message. Its role may read the secrets
that sign webhooks, publish to the topics of joblane.toml, and put events on the default bus.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger
from botocore.config import Config
from pydantic import Json

from joblane.aws.clients import QUICK, Clients
from joblane.aws.environment import Environment
from joblane.aws.job.secret_store import SecretProblem, SecretStore
from joblane.aws.notify.event_bus import EventBus
from joblane.aws.notify.queue import NotifyQueue
from joblane.aws.notify.topics import Topics
from joblane.deployment.names import notify_name
from joblane.notify.rules import NotifyRules
from joblane.service.notify.channels import ToBus, ToFeed, ToTopic
from joblane.service.notify.notifier import FEED, NotDelivered, Notifier
from joblane.service.notify.webhook import Webhooks
from joblane.service.outbound import Guard


class Settings(Environment):
    """The function's environment."""

    notify: Json[NotifyRules]
    retry_s: Json[tuple[int, ...]]


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    guard: Guard | None = None,
) -> Notifier:
    """Compose the function from its settings, its clients and a clock in Unix seconds.

    `guard` decides which addresses webhooks may reach, in place of the one of the settings.
    """
    rules = settings.notify
    # Parameter Store holds no secret of a webhook.
    store = SecretStore(clients.make("secretsmanager"), None, settings.deployment)

    def read(reference: str, tenant: str) -> str:
        try:
            return store.value(reference, tenant)
        except SecretProblem as problem:
            raise NotDelivered(f"the secret {reference}: {problem}") from None

    def topics(region: str) -> Any:
        return clients.make("sns", QUICK.merge(Config(region_name=region)))

    allowed = guard or Guard(networks=rules.allow_networks, every_host=True)
    bus = EventBus(clients.make("events"))
    url = settings.queue_url_prefix + notify_name(settings.deployment)
    return Notifier(
        NotifyQueue(clients.make("sqs"), url),
        {
            "url": Webhooks(rules, read, allowed, clock),
            "sns": ToTopic(rules, Topics(topics)),
            "eventbridge": ToBus(rules, bus),
            FEED: ToFeed(rules, bus),
        },
        settings.retry_s,
        Logger(),
    )


@once
def _application() -> Notifier:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; those that failed are reported, and delivered again."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
