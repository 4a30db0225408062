"""Lambda function that EventBridge calls every minute: replaces instances without an agent."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable

from aws_lambda_powertools.logging import Logger

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.auto_scaling import AutoScalingGroups
from joblane.aws.notify.topic import Topic
from joblane.service.fleet.instance_watch import InstanceWatch


class Settings(Environment):
    """The function's environment."""

    agents_table: str
    topic: str


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> InstanceWatch:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    return InstanceWatch(
        AgentStore(clients.make("dynamodb"), settings.agents_table),
        AutoScalingGroups(clients.make("autoscaling"), settings.deployment),
        Topic(clients.make("sns"), settings.topic).publish,
        clock,
        Logger(),
    )


@once
def _application() -> InstanceWatch:
    return build(Settings.read(__file__), Clients(), time.time)


def main(_event: object, _context: object) -> dict[str, int]:
    """Answer EventBridge's call of every minute."""
    return dict(_application().run())
