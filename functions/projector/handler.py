"""Lambda function that counts what happens in queues, from the stream of the `jobs` table."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.functions import StartedFunction
from joblane.aws.metrics import Metrics
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.usage import UsageStore
from joblane.deployment.metrics import FAILED_JOBS
from joblane.deployment.names import alternate_name, exports_name, scaler_name, traces_name
from joblane.queue.activity import Change
from joblane.queue.measures import measures
from joblane.service.fleet.kick import KICK, Kick
from joblane.service.put_aside import PutAside, Record
from joblane.service.queue.count import Counting

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class Settings(Environment):
    """The function's environment."""

    counters_table: str
    metrics: Json[bool] = False
    """Whether the deployment has all custom metrics."""
    alarms: Json[bool] = False
    """Whether it has alarms, of which one reads the metric of jobs that fail."""
    kicks: Json[bool] = False
    """Whether the deployment has fleets, which the function scaler sizes."""
    sample: Json[float] | None = None
    """The part of the traces without a caller whose spans are exported; None: no spans are."""
    exporting: Json[frozenset[str]] = frozenset()
    """Tenants whose ended jobs are exported."""


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Counting:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    sqs = clients.make("sqs")
    alternate = settings.queue_url_prefix + alternate_name(settings.deployment)

    def put_aside(what: Mapping[str, Any]) -> None:
        sqs.send_message(QueueUrl=alternate, MessageBody=json.dumps(what))

    metrics = Metrics(settings.metrics or settings.alarms)

    def measure(changes: Sequence[Change]) -> None:
        if metrics.on:
            for (queue, minute), values in measures(changes).items():
                names = {"Deployment": settings.deployment, "Queue": queue}
                wanted = {
                    name: value
                    for name, value in values.items()
                    if settings.metrics or name == FAILED_JOBS
                }
                if wanted:
                    metrics.emit(names, wanted, at_ms=minute * 60_000)

    name = scaler_name(settings.deployment)
    scaler = StartedFunction(cache(lambda: clients.make("lambda")), name)
    kick = Kick(lambda: scaler(KICK), clock, Logger())

    trace, export = _trace(settings, sqs), _export(settings, sqs)

    def pass_on(records: Sequence[Record], changes: Sequence[Change]) -> None:
        if settings.kicks:
            kick.after(changes)  # first: jobs wait for it
        export(records)  # before what would be done twice if this fails
        trace(records)
        measure(changes)

    dynamodb = clients.make("dynamodb")
    counters = CounterStore(dynamodb, settings.counters_table)
    usage = UsageStore(dynamodb, settings.counters_table)
    aside = PutAside("projector", put_aside, Logger())
    return Counting(counters, usage, aside, Logger(), clock, pass_on)


def _export(settings: Settings, sqs: "SQSClient") -> Callable[[Sequence[Record]], None]:
    """What sends ended jobs to the export; does nothing if no tenant has it."""
    if not settings.exporting:
        return lambda _records: None
    from joblane.aws.export.queue import ExportQueue  # few deployments have it
    from joblane.service.export.exports import Exports

    url = settings.queue_url_prefix + exports_name(settings.deployment)
    return Exports(ExportQueue(sqs, url), settings.exporting, Logger()).send


def _trace(settings: Settings, sqs: "SQSClient") -> Callable[[Sequence[Record]], None]:
    """What sends spans; does nothing if they are not exported."""
    if settings.sample is None:
        return lambda _records: None
    from joblane.aws.trace.queue import TraceQueue  # few deployments have it
    from joblane.service.trace.traces import Traces

    url = settings.queue_url_prefix + traces_name(settings.deployment)
    return Traces(TraceQueue(sqs, url), settings.sample, Logger()).send


@once
def _application() -> Counting:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"counters": _application().handle(event["Records"])}
