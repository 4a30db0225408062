"""Lambda function that frees the jobs of an agent whose EC2 instance has ended."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger

from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import Lanes
from joblane.service.instance_end import InstanceEnd


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    agents_table: str


def build(settings: Settings, clients: Clients) -> InstanceEnd:
    """Compose the function from its settings and its clients."""
    dynamodb = clients.make("dynamodb")
    return InstanceEnd(
        AgentStore(dynamodb, settings.agents_table),
        JobStore(dynamodb, settings.jobs_table),
        Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment),
        Logger(),
    )


@once
def _application() -> InstanceEnd:
    return build(Settings.read(), Clients())


def main(event: Mapping[str, Any], _context: object) -> None:
    """Handle EC2's "Instance State-change Notification" of an instance that ended.

    An instance's id is its agent's name (infra/agent). Errors of AWS are raised: EventBridge
    tries again.
    """
    _application().free(str(event["detail"]["instance-id"]))
