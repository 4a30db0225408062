"""Lambda function that counts what happens in queues, from the stream of the `jobs` table."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import json
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger

from joblane.aws.clients import Clients
from joblane.aws.counters import CounterStore
from joblane.deployment.names import alternate_name
from joblane.service.count import Counting


class Settings(Environment):
    """The function's environment."""

    counters_table: str


def build(settings: Settings, clients: Clients) -> Counting:
    """Compose the function from its settings and its clients."""
    sqs = clients.make("sqs")
    alternate = settings.queue_url_prefix + alternate_name(settings.deployment)

    def put_aside(what: Mapping[str, Any]) -> None:
        sqs.send_message(QueueUrl=alternate, MessageBody=json.dumps(what))

    counters = CounterStore(clients.make("dynamodb"), settings.counters_table)
    return Counting(counters, put_aside, Logger())


@once
def _application() -> Counting:
    return build(Settings.read(), Clients())


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"counters": _application().handle(event["Records"])}
