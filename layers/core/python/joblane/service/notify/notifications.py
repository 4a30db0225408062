"""Put changes of jobs that somebody wants to know of into the queue of notifications.

    table                      sequel                      queue notify         notifier
    completed  ------------->  reads the record
                               send  ------------------->  message  --------->  delivers
    (the record comes again)   send  ------------------->  message  --------->  delivers again

An event that is delivered twice has the same id. What it says is the job as the record has it, so
the job may have moved on when it arrives.

A new mapping reads what the stream has of the last 24 h, most of which the one before has notified
about. So changes from before it was made are dropped and counted, unless they are of the last
quarter of an hour: those may have come while there was no mapping.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from joblane.aws.job.items import from_row
from joblane.aws.job.table import JobTable
from joblane.aws.notify.queue import NotifyQueue
from joblane.aws.notify.stream import NotifiedChange, read_change
from joblane.contract.job_events import Delivery, job_event
from joblane.job.head import Head

_SOME_SPEC = {"spec": '{"command":["-"]}'}
"""Stands for a submission that was deleted: the event has no name, type and labels then."""


FRESH_S = 900
"""Age in seconds up to which a change is notified about although it is older than the mapping."""


class Outdated(NamedTuple):
    """A change that nobody is notified about, because it is older than the mapping that read it."""

    queue: str


@dataclass(frozen=True)
class Notifications:
    """Sends what the records of the stream have to the queue."""

    jobs: JobTable
    queue: NotifyQueue
    deployment: str
    api_url: str | None
    """URL of the API, without a trailing slash; None if it is not known."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    mapping_since: Callable[[], float | None]
    """Returns when the mapping was made, in Unix seconds; None while that is not written."""

    def message(self, record: Mapping[str, Any]) -> tuple[str, str] | Outdated | None:
        """The message of a record, after its tenant; None if nobody is to be notified.

        Reads the submission if it is not in the row. Raises KeyError, ValueError and TypeError for
        a record that cannot be read, and Unavailable.
        """
        change = read_change(record)
        if change is None:
            return None
        head = self._head(change)
        if self._is_outdated(head.timeline[-1].at_ms / 1000):
            return Outdated(head.queue)
        event = job_event(head, change.state, change.previous, self.deployment, self.api_url)
        delivery = Delivery(notify=change.notify, event=event)
        return head.tenant, delivery.model_dump_json(exclude_none=False)

    def send(self, messages: Iterable[tuple[str, str]]) -> None:
        """Send messages. Raises Unavailable and NotSent."""
        self.queue.send(list(messages))

    def _is_outdated(self, at: float) -> bool:
        """Whether a change of a Unix time in seconds is left to the mapping before this one."""
        if at > self.clock() - FRESH_S:
            return False
        since = self.mapping_since()
        return since is None or at < since

    def _head(self, change: NotifiedChange) -> Head:
        head = self.jobs.head_of_image(change.row)
        if head is not None:
            return head
        return from_row(change.row, _SOME_SPEC)
