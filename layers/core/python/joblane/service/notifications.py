"""Put changes of jobs that somebody wants to know of into the queue of notifications.

    table                      sequel                      queue notify         notifier
    completed  ------------->  reads the record
                               send  ------------------->  message  --------->  delivers
    (the record comes again)   send  ------------------->  message  --------->  delivers again

An event that is delivered twice has the same id. What it says is the job as the record has it, so
the job may have moved on when it arrives.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from joblane.aws.job_items import from_row
from joblane.aws.job_notifications import Change, read_change
from joblane.aws.job_table import JobTable
from joblane.aws.notify_queue import NotifyQueue
from joblane.contract.job_events import Delivery, job_event
from joblane.job.head import Head

_SOME_SPEC = {"spec": '{"command":["-"]}'}
"""Stands for a submission that was deleted: the event has no name, type and labels then."""


@dataclass(frozen=True)
class Notifications:
    """Sends what the records of the stream have to the queue."""

    jobs: JobTable
    queue: NotifyQueue
    deployment: str
    api_url: str | None
    """URL of the API, without a trailing slash; None if it is not known."""

    def message(self, record: Mapping[str, Any]) -> tuple[str, str] | None:
        """The message of a record, after its tenant; None if nobody is to be notified.

        Reads the submission if it is not in the row. Raises KeyError, ValueError and TypeError for
        a record that cannot be read, and ClientError and BotoCoreError.
        """
        change = read_change(record)
        if change is None:
            return None
        head = self._head(change)
        event = job_event(head, change.state, change.previous, self.deployment, self.api_url)
        delivery = Delivery(notify=change.notify, event=event)
        return head.tenant, delivery.model_dump_json(exclude_none=False)

    def send(self, messages: Iterable[tuple[str, str]]) -> None:
        """Send messages. Raises ClientError, BotoCoreError and NotSent."""
        self.queue.send(list(messages))

    def _head(self, change: Change) -> Head:
        head = self.jobs.head_of_image(change.row)
        if head is not None:
            return head
        head = from_row(change.row, _SOME_SPEC)
        spec = head.spec.model_copy(update={"queue": change.row.get("queue")})
        return replace(head, spec=spec)
