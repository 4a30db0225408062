"""Lambda function that EventBridge calls every minute to size the fleets."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.auto_scaling import AutoScalingGroups
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.metrics import Metrics
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.settings import SettingsStore
from joblane.fleet.capacity import FleetPlan
from joblane.service.fleet.scaler import Scaler
from joblane.service.fleet.snapshot import Sources


class Plan(BaseModel):
    """A `FleetPlan` as JSON."""

    name: str
    queues: tuple[str, ...]
    slots: int
    idle_s: int | None


class Settings(Environment):
    """The function's environment."""

    agents_table: str
    settings_table: str
    fleet_plans: Json[tuple[Plan, ...]]
    """In the order of joblane.toml."""
    threads: Json[dict[str, int]]
    """Jobs of each queue that one agent runs at once."""
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Scaler:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    return Scaler(
        settings.deployment,
        [FleetPlan(**dict(plan)) for plan in settings.fleet_plans],
        settings.threads,
        Sources(
            AutoScalingGroups(clients.make("autoscaling"), settings.deployment),
            AgentStore(dynamodb, settings.agents_table),
            Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment),
            SettingsStore(dynamodb, settings.settings_table),
            FleetRecords(dynamodb, settings.settings_table),
        ),
        Metrics(settings.metrics),
        clock,
        Logger(),
        pool=pool,
    )


@once
def _application() -> Scaler:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer EventBridge's call of every minute, or one with `kicked`: jobs have come."""
    return dict(_application().run(kicked="kicked" in event))
