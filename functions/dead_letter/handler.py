"""Dead letter: deals with messages that nobody could, and tells an operator.

They come from two kinds of queues. A lane's dead-letter queue holds what SQS handed out too
often, and what an agent could not read. The queue `alternate` holds events that AWS could not
hand to a function of ours. Each message is kept as it was, in the `jobs` table under its job or
under `letter#<message id>` (sk `RAW`), for as long as dead jobs are; then its job, if it is one
of ours and waits, ends dead; then the topic hears of it.

    function                     table                      topic
    keep  ------------------->   RAW
    move: exhaust  ---------->   dead
    (killed here)
    again: finds it dead by this very letter  ---------->   told
"""

from joblane.startup import once  # first of all: see there

# isort: split
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore, Letter, Refused
from joblane.aws.lanes import Lanes
from joblane.aws.operations import Gone, Operations
from joblane.head import Head, short_reason
from joblane.lifecycle import Event, State
from joblane.message import NotOurs, decode
from joblane.moves import NotAllowed
from joblane.names import alternate_name
from joblane.retention import Retention

if TYPE_CHECKING:
    from mypy_boto3_sns.client import SNSClient

MAX_SHOWN = 2000
"""Characters of a strange message that the topic repeats: e-mail is for people."""


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    topic: Annotated[str, Field(alias="JOBLANE_TOPIC")]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


class DeadLetters:
    """Deals with letters, over the stores it is handed."""

    def __init__(
        self, settings: Settings, clients: Clients, clock: Callable[[], float], logger: Logger
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._logger = logger
        self._jobs = JobStore(clients.make("dynamodb"), settings.jobs_table)
        lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
        self._operations = Operations(self._jobs, lanes, settings.retention)
        self._sns: SNSClient = clients.make("sns")

    def handle(self, records: list[dict[str, Any]]) -> list[str]:
        """Deal with each record of an SQS event; returns the ids of those to be seen again."""
        failed: list[str] = []
        for record in records:
            try:
                self._one(record)
            except Exception:
                # Whatever it was, the other letters are not to wait for it; SQS brings this
                # one back, and Lambda counts nothing against the queue.
                self._logger.exception("a dead letter waits", message_id=record.get("messageId"))
                failed.append(str(record.get("messageId")))
        return failed

    def _one(self, record: Mapping[str, Any]) -> None:
        source = str(record["eventSourceARN"]).rpartition(":")[2]
        letter = Letter(str(record["body"]), source, _reason(record))
        if source == alternate_name(self._settings.deployment):
            self._strange(record, letter, "an event that nothing could route")
            return
        try:
            message = decode(letter.body)
        except NotOurs as error:
            self._strange(record, letter, f"a message that is not ours ({error})")
            return
        head = self._jobs.get(message.job_id)
        if head is None:
            self._logger.info("the letter of a deleted job is discarded", job_id=message.job_id)
        elif head.tenant != message.tenant:
            self._strange(record, letter, "a message that names another tenant's job")
        elif head.state is State.ACTIVE:
            # It may be the message that would bring the job to another agent if this one died.
            self._operations.call(head)
            self._logger.info("a running job got a fresh message", job_id=head.job_id)
        else:
            self._give_up(head, letter)

    def _give_up(self, head: Head, letter: Letter) -> None:
        """End a job that waits, because its message cannot bring it to an agent."""
        now_ms = int(self._clock() * 1000)
        if not _is_dead_of(head, letter.reason):
            if head.state in {State.PENDING, State.RETRY}:
                self._keep(head.job_id, letter, now_ms)
            try:
                head = self._operations.decide(head, Event.EXHAUST, letter.reason, now_ms)
            except (NotAllowed, Gone, Refused):
                self._logger.info(
                    "a letter that means nothing any more is discarded", job_id=head.job_id
                )
                return
        self._tell(
            f"job {head.job_id} is dead",
            {
                "job_id": head.job_id,
                "tenant": head.tenant,
                "queue": letter.source,
                "reason": letter.reason,
                "kept": f"{self._settings.jobs_table}: job_id {head.job_id}, sk RAW",
                "next": f"joblane dlq replay {head.job_id}, or joblane dlq dismiss {head.job_id}",
            },
        )

    def _strange(self, record: Mapping[str, Any], letter: Letter, what: str) -> None:
        now_ms = int(self._clock() * 1000)
        kept = f"letter#{record['messageId']}"
        self._keep(kept, letter, now_ms)
        self._tell(
            f"{what} in {letter.source}",
            {
                "queue": letter.source,
                "reason": letter.reason,
                "body": letter.body[:MAX_SHOWN],
                "kept": f"{self._settings.jobs_table}: job_id {kept}, sk RAW",
            },
        )

    def _keep(self, job_id: str, letter: Letter, now_ms: int) -> None:
        expires_at = self._settings.retention.expires_at(State.DEAD, now_ms)
        self._jobs.keep_letter(job_id, letter, expires_at)

    def _tell(self, subject: str, body: Mapping[str, str]) -> None:
        self._logger.warning(subject, kept=body["kept"], reason=body["reason"])
        self._sns.publish(
            TopicArn=self._settings.topic,
            Subject=f"Joblane: {subject}".encode("ascii", "replace").decode()[:100],
            Message=json.dumps(body, indent=2, ensure_ascii=False),
        )


def _reason(record: Mapping[str, Any]) -> str:
    """Why a message is here: what an agent said of it, or what SQS counted."""
    said = record.get("messageAttributes", {}).get("reason", {}).get("stringValue")
    if said:
        return short_reason(f"its message could not be read: {said}")
    received = record.get("attributes", {}).get("ApproximateReceiveCount", "?")
    return f"its message was received {received} times, and no agent finished with it"


def _is_dead_of(head: Head, reason: str) -> bool:
    """Whether a job died of this very letter, so that only the telling may be left."""
    return head.state is State.DEAD and head.timeline[-1].reason == reason


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> DeadLetters:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    return DeadLetters(settings, clients, clock, Logger())


@cache
def _application() -> DeadLetters:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """Answer a batch of SQS messages; what could not be dealt with is reported, and comes back."""
    failed = _application().handle(event["Records"])
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}
