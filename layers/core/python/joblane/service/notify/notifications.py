"""Put transitions of jobs that somebody wants to know of into the queue of notifications.

    table                      sequel                      queue notify         notifier
    completed  ------------->  reads the record
                               send  ------------------->  message  --------->  delivers
    (the record comes again)   send  ------------------->  message  --------->  delivers again

An event that is delivered twice has the same id. What it says is the job as the record has it, so
the job may have moved on when it arrives.

A message group is what SQS serves in turn: the ends of a tenant's jobs do not wait behind what else
they tell, and neither behind the tenant's feed.

A new mapping reads what the stream has of the last 24 h, most of which the one before has notified
about. So changes from before it was made are dropped and counted, unless they are of the last
quarter of an hour: those may have come while there was no mapping.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from joblane.aws.job.items import from_row
from joblane.aws.job.table import JobTable
from joblane.aws.notify.event_bus import PUT_MOST
from joblane.aws.notify.queue import NotifyQueue
from joblane.aws.notify.stream import ToldChange, read_changes
from joblane.contract.job_events import Delivery, JobEvent, job_event
from joblane.job.head import Head
from joblane.notify.event_names import DEFAULT
from joblane.notify.request import Notify
from joblane.state.lifecycle import State

_SOME_SPEC = {"spec": '{"command":["-"]}'}
"""Stands for a submission that was deleted: the event has no name, type and labels then."""


FRESH_S = 900
"""Age in seconds up to which a change is notified about although it is older than the mapping."""


FEED_BYTES = 24_000
"""Most that the events of a message have, if they are several: SQS takes 256 KB in a request of ten
messages, and EventBridge as much in a request of ten events."""


class Told(NamedTuple):
    """An event, and whom it is for."""

    event: JobEvent
    notify: Notify | None
    """Whom the job asked to notify of it; None if it did not."""
    on_feed: bool
    """Whether its tenant's feed has it."""


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

    def events(self, record: Mapping[str, Any]) -> list[Told] | Outdated | None:
        """The events of a record; None if it has none that somebody wants to know of.

        Reads the submission if it is not in the row. Raises KeyError, ValueError and TypeError for
        a record that cannot be read, and Unavailable.
        """
        changes = read_changes(record)
        if not changes:
            return None
        head = self._head(changes[0])
        if self._is_outdated(head.timeline[-1].at_ms / 1000):
            return Outdated(head.queue)
        return [self._told(_as_of(head, change.passed), change) for change in changes]

    def _told(self, head: Head, change: ToldChange) -> Told:
        event = job_event(
            head, change.event, change.before, change.sequence, self.deployment, self.api_url
        )
        return Told(event, change.notify, change.on_feed)

    def send(self, told: Iterable[Told]) -> None:
        """Send events. Raises Unavailable and NotSent."""
        told = list(told)
        messages = [
            (_group(each.event), Delivery(notify=each.notify, events=(each.event,)))
            for each in told
            if each.notify is not None
        ]
        messages += [
            (f"{events[0].tenant}#feed", Delivery(notify=None, events=events))
            for events in _of_feeds(each.event for each in told if each.on_feed)
        ]
        self.queue.send([(group, message.model_dump_json()) for group, message in messages])

    def _is_outdated(self, at: float) -> bool:
        """Whether a change of a Unix time in seconds is left to the mapping before this one."""
        if at > self.clock() - FRESH_S:
            return False
        since = self.mapping_since()
        return since is None or at < since

    def _head(self, change: ToldChange) -> Head:
        head = self.jobs.head_of_image(change.row)
        if head is not None:
            return head
        return from_row(change.row, _SOME_SPEC)


def _as_of(head: Head, passed: State | None) -> Head:
    """The job before its last transition, a claim, if it has passed such a state by it."""
    if passed is None:
        return head
    timeline = head.timeline[:-1]
    attempt, epoch = timeline[-1].attempt, head.epoch - 1
    return replace(head, state=passed, timeline=timeline, attempt=attempt, epoch=epoch, agent=None)


def _group(event: JobEvent) -> str:
    """The message group of what a job asked for.

    That of ends is another than that of the rest, and of members, of which one submission makes ten
    thousand.
    """
    main = event.event in _MAIN and event.group is None
    return event.tenant if main else f"{event.tenant}#progress"


_MAIN = frozenset(f"job.{name}" for name in DEFAULT)


def _of_feeds(events: Iterable[JobEvent]) -> Iterator[tuple[JobEvent, ...]]:
    """Gather the events of each tenant's feed for messages, in their order."""
    gathered: dict[str, list[JobEvent]] = {}
    sizes: dict[str, int] = {}
    for event in events:
        own, size = gathered.setdefault(event.tenant, []), len(event.model_dump_json().encode())
        if own and (len(own) == PUT_MOST or sizes[event.tenant] + size > FEED_BYTES):
            yield tuple(own)
            own.clear()
        sizes[event.tenant] = (sizes[event.tenant] if own else 0) + size
        own.append(event)
    yield from (tuple(own) for own in gathered.values() if own)
