"""Projector: counts what happens in queues, from the stream of the `jobs` table.

A batch is folded into one write for each tenant, queue and minute that it touches. What it wrote
before it died is replaced when the batch comes again (`joblane.aws.activity`). A record that
cannot be read is put aside into the queue `alternate`, and the others are counted; trouble with
DynamoDB ends the call, and Lambda brings the batch again.
"""

from joblane.startup import once  # first of all: see there

# isort: split
import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from aws_lambda_powertools.logging import Logger
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field

from joblane.activity import Change, fold
from joblane.aws.activity import CounterStore, change_of
from joblane.aws.clients import Clients
from joblane.names import alternate_name

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    counters_table: Annotated[str, Field(alias="JOBLANE_COUNTERS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]


class Projector:
    """Counts batches, over the stores it is handed."""

    def __init__(self, settings: Settings, clients: Clients, logger: Logger) -> None:
        self._counters = CounterStore(clients.make("dynamodb"), settings.counters_table)
        self._sqs: SQSClient = clients.make("sqs")
        self._alternate = settings.queue_url_prefix + alternate_name(settings.deployment)
        self._logger = logger

    def handle(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Count a batch of the stream; returns how many counters were written.

        Raises what AWS says when a counter cannot be written.
        """
        changes: list[Change] = []
        for record in records:
            try:
                change = change_of(record)
            except Exception as error:  # noqa: BLE001 - one record must never hold up the stream
                self._put_aside(record, error)
                continue
            if change is not None:
                changes.append(change)
        found = fold(changes)
        for series, (sequence, tally) in found.items():
            self._counters.put(series, sequence, tally)
        self._logger.info("counted", changes=len(changes), counters=len(found))
        return len(found)

    def _put_aside(self, record: Mapping[str, Any], error: Exception) -> None:
        """Tell an operator of a record, without what its job says."""
        stream = record.get("dynamodb") or {}
        what = {
            "source": "projector",
            "problem": f"a record of the stream cannot be read: {type(error).__name__}",
            "keys": stream.get("Keys"),
            "sequence": stream.get("SequenceNumber"),
        }
        self._logger.error("a record is put aside", record=what)
        try:
            self._sqs.send_message(QueueUrl=self._alternate, MessageBody=json.dumps(what))
        except (BotoCoreError, ClientError):
            self._logger.exception("it could not be put aside, and is in this log only")


def build(settings: Settings, clients: Clients) -> Projector:
    """Compose the function from its settings and its clients."""
    return Projector(settings, clients, Logger())


@cache
def _application() -> Projector:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients()))


def main(event: Mapping[str, Any], _context: object) -> dict[str, int]:
    """Answer a batch of records of the stream."""
    return {"counters": _application().handle(event["Records"])}
