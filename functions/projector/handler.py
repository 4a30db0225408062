"""Lambda function that counts what happens in queues, from the stream of the `jobs` table."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.counters import CounterStore
from joblane.aws.functions import StartedFunction
from joblane.aws.metrics import Metrics
from joblane.aws.usage import UsageStore
from joblane.deployment.names import alternate_name, scaler_name
from joblane.queue.activity import Change
from joblane.queue.measures import measures
from joblane.service.count import Counting
from joblane.service.kick import Kick


class Settings(Environment):
    """The function's environment."""

    counters_table: str
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""
    kicks: Json[bool] = False
    """Whether the deployment has fleets, which the function scaler sizes."""


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Counting:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    sqs = clients.make("sqs")
    alternate = settings.queue_url_prefix + alternate_name(settings.deployment)

    def put_aside(what: Mapping[str, Any]) -> None:
        sqs.send_message(QueueUrl=alternate, MessageBody=json.dumps(what))

    metrics = Metrics(settings.metrics)

    def measure(changes: Sequence[Change]) -> None:
        if metrics.on:
            for (queue, minute), values in measures(changes).items():
                names = {"Deployment": settings.deployment, "Queue": queue}
                metrics.emit(names, values, at_ms=minute * 60_000)

    name = scaler_name(settings.deployment)
    scaler = StartedFunction(cache(lambda: clients.make("lambda")), name)
    kick = Kick(lambda: scaler({"kicked": True}), clock, Logger())

    def stored(changes: Sequence[Change]) -> None:
        if settings.kicks:
            kick.after(changes)
        measure(changes)

    dynamodb = clients.make("dynamodb")
    counters = CounterStore(dynamodb, settings.counters_table)
    usage = UsageStore(dynamodb, settings.counters_table)
    return Counting(counters, usage, put_aside, Logger(), clock, stored)


@once
def _application() -> Counting:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"counters": _application().handle(event["Records"])}
