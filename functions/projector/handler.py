"""Lambda function that counts what happens in queues, from the stream of the `jobs` table."""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field

from joblane.aws.clients import Clients
from joblane.aws.counters import CounterStore
from joblane.deployment.names import alternate_name
from joblane.service.count import Counting


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    counters_table: Annotated[str, Field(alias="JOBLANE_COUNTERS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]


def build(settings: Settings, clients: Clients) -> Counting:
    """Compose the function from its settings and its clients."""
    sqs = clients.make("sqs")
    alternate = settings.queue_url_prefix + alternate_name(settings.deployment)

    def put_aside(what: Mapping[str, Any]) -> None:
        sqs.send_message(QueueUrl=alternate, MessageBody=json.dumps(what))

    counters = CounterStore(clients.make("dynamodb"), settings.counters_table)
    return Counting(counters, put_aside, Logger())


@cache
def _application() -> Counting:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients()))


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"counters": _application().handle(event["Records"])}
