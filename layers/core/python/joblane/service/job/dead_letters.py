"""Handle messages that no agent and no function could process, and notify an operator.

They come from two queues. The dead-letter queue of the lanes holds messages that SQS delivered too
often and messages that an agent could not read. The queue `alternate` holds events that AWS could
not deliver to a function. Each message is stored unchanged in the `jobs` table, under its job or
under `letter#<message id>` (sk `RAW`), for as long as dead jobs are kept; then its job, if it is
waiting, becomes dead; then the notification is published.

Agents of all fleets write to the dead-letter queue. So a letter ends a job only if it names the
job's tenant and comes from a lane of the job's queue (docs/decisions/0204).

    service                      table                      topic
    put  -------------------->   RAW
    move: exhaust  ---------->   dead
    (killed here)
    again: the job is dead for this very letter  -------->  notification
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

from joblane.aws.job.dead_letters import DeadLetter, DeadLetterStore
from joblane.aws.job.jobs import JobStore
from joblane.job.head import Head
from joblane.job.message import Message, NotOurs
from joblane.job.moves import NotAllowed
from joblane.service.decide_again import decide_again
from joblane.service.fleet.kick import is_given_up
from joblane.service.job.expired_records import Expired, read_expired
from joblane.service.job.operations import Gone, Operations
from joblane.service.log import Log
from joblane.state.lifecycle import Event, State
from joblane.state.retention import Retention
from joblane.state.timeline import short_reason
from joblane.state.trace import Traced, parse_trace

MAX_SHOWN = 2000
"""Characters of an unreadable message that a notification contains."""


UNKNOWN = "the dead-letter queue"
"""The source of a letter that does not say which lane it was in."""


@dataclass(frozen=True)
class DeadLetters:
    """Handles dead letters. Every method may be called again after a crash."""

    store: DeadLetterStore
    jobs: JobStore
    operations: Operations
    _: KW_ONLY
    publish: Callable[[str, str], None]
    """Takes a subject and a text."""
    retention: Retention
    alternate: str
    """Name of that queue."""
    is_of: Callable[[str, str], bool]
    """Whether an SQS queue of this name is a lane of a queue."""
    is_expected: Callable[[Expired], bool]
    """Whether records were given up only because their mapping is new."""
    clock: Callable[[], float]
    log: Log

    def handle(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Handle each record of an SQS event; returns the ids of those that failed."""
        failed: list[str] = []
        for record in records:
            try:
                decide_again(partial(self._one, record))
            except Exception:
                # Whatever it was, the other letters must not wait for it. SQS delivers this
                # one again, and does not count it as an error of the function.
                message_id = record.get("messageId")
                self.log.exception("dead letter not handled", message_id=message_id, **_job(record))
                failed.append(str(message_id))
        return failed

    def _one(self, record: Mapping[str, Any]) -> None:
        """Handle one record. Raises Changed if its job changes meanwhile: the letter may be old.

        service                      table                      API
        reads: pending, edit 0
                                     pending, edit 1   <------  edit, which sends a message
        move: exhaust if edit 0 -->  refused
        reads: edit 1; the letter is from before it
        """
        message_id, letter = str(record["messageId"]), _letter(record)
        if str(record["eventSourceARN"]).endswith(f":{self.alternate}"):
            self._event(message_id, replace(letter, source=self.alternate))
            return
        try:
            message = Message.decode(letter.body)
        except NotOurs as error:
            self._unreadable(message_id, letter, f"a message of another format ({error})")
            return
        head = self.jobs.get(message.job_id)
        if head is None:
            self.log.info("dead letter of a deleted job discarded", **_job(record))
        elif head.tenant != message.tenant:
            self._unreadable(message_id, letter, "a message that names another tenant's job")
        elif message.is_outdated(head):
            self.log.info("dead letter from before an edit of its job discarded", **_names(head))
        elif letter.source != UNKNOWN and not self.is_of(letter.source, head.queue):
            self._unreadable(message_id, letter, "a message that names a job of another queue")
        elif head.state is State.ACTIVE:
            # Without this message no other agent would take the job over if its agent died.
            self.operations.wake_up(head)
            self.log.info("a new message was sent for a running job", **_names(head))
        else:
            self._exhaust(head, letter)

    def _event(self, message_id: str, letter: DeadLetter) -> None:
        """Keep an event that could not be delivered, unless nobody has to know of it."""
        if is_given_up(letter.body):
            self.log.info("a kick that the scaler had no time for is discarded")
            return
        expired = read_expired(letter.body)
        if expired is not None and self.is_expected(expired):
            names = {"function": expired.function, "records": expired.records}
            self.log.warning("records older than their new mapping are discarded", **names)
            return
        self._unreadable(message_id, letter, "an event that AWS could not deliver")

    def _exhaust(self, head: Head, letter: DeadLetter) -> None:
        """Make a waiting job dead: its message was received too often or could not be read."""
        now_ms = int(self.clock() * 1000)
        if not _has_died_of(head, letter.reason):
            if head.state in {State.PENDING, State.RETRY}:
                self._put(head.job_id, letter, now_ms)
            try:
                head = self.operations.decide(
                    head, Event.EXHAUST, letter.reason, now_ms, exact=True
                )
            except (NotAllowed, Gone):
                self.log.info("outdated dead letter discarded", **_names(head))
                return
        self._notify(
            f"job {head.job_id} is dead",
            letter,
            {
                **_names(head),
                "tenant": head.tenant,
                "queue": head.queue,
                "lane": head.lane,
                "reason": letter.reason,
                "kept": self.store.place(head.job_id),
                "next": f"joblane dlq replay {head.job_id}, or joblane dlq dismiss {head.job_id}",
            },
        )

    def _unreadable(self, message_id: str, letter: DeadLetter, what: str) -> None:
        key = f"letter#{message_id}"
        self._put(key, letter, int(self.clock() * 1000))
        self._notify(
            f"{what} in {letter.source}",
            letter,
            {
                "source": letter.source,
                "reason": letter.reason,
                "body": letter.body[:MAX_SHOWN],
                "kept": self.store.place(key),
            },
        )

    def _put(self, key: str, letter: DeadLetter, now_ms: int) -> None:
        self.store.put(key, letter, self.retention.expires_at(State.DEAD, now_ms))

    def _notify(self, subject: str, letter: DeadLetter, body: Mapping[str, str]) -> None:
        job = {name: body[name] for name in ("job_id", "trace_id") if name in body}
        self.log.warning(subject, kept=body["kept"], reason=letter.reason, **job)
        self.publish(f"Joblane: {subject}", json.dumps(body, indent=2, ensure_ascii=False))


def _names(job: Traced) -> dict[str, str]:
    """The fields that name a job in a log entry and in a notification."""
    return {"job_id": job.job_id, "trace_id": job.trace_id}


def _job(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields that name the job of a record; empty if it names none."""
    try:
        message = Message.decode(str(record["body"]))
    except (KeyError, NotOurs):
        return {}
    trace = parse_trace(_attribute(record, "traceparent"), _attribute(record, "tracestate"))
    return _names(message.model_copy(update={"caller_trace": trace}))


def _attribute(record: Mapping[str, Any], name: str) -> str | None:
    """The text of a message's attribute; None without it."""
    text: str | None = record.get("messageAttributes", {}).get(name, {}).get("stringValue")
    return text


def _source(record: Mapping[str, Any]) -> str:
    """The lane that a dead letter was in, as SQS says, or else the agent that sent it."""
    moved_from = record.get("attributes", {}).get("DeadLetterQueueSourceArn")
    if moved_from is not None:
        return str(moved_from).rpartition(":")[2]
    return _attribute(record, "lane") or UNKNOWN


def _letter(record: Mapping[str, Any]) -> DeadLetter:
    """Read a record: it is here for the agent's reason, or because of SQS's count of deliveries."""
    reason = _attribute(record, "reason")
    receives = record.get("attributes", {}).get("ApproximateReceiveCount", "?")
    return DeadLetter(
        body=str(record["body"]),
        source=_source(record),
        reason=short_reason(f"its message could not be read: {reason}")
        if reason
        else f"its message was received {receives} times, and no agent finished with it",
    )


def _has_died_of(head: Head, reason: str) -> bool:
    """Whether this letter already made the job dead, so only the notification may be missing."""
    return head.state is State.DEAD and head.timeline[-1].reason == reason
