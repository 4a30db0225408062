"""What follows the end of a job with a key or of a member of a group, and what jobs tell.

A batch of the stream becomes one release of each key in it (`joblane.service.key.release`): its
slot goes to the job that waits first. And it becomes one settlement of each group
(`joblane.service.group.settlement`), which also goes on with a group that was left with members to
be placed. Transitions that somebody wants to know of become messages for
the function `notifier` (`joblane.service.notify.notifications`). A batch that is delivered again
changes nothing, and notifies with the same ids.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from joblane.aws.job.ends import KeyedEnd, LeftGroup, read_end, read_left
from joblane.aws.job.items import TELLS
from joblane.errors import Failure
from joblane.group.record import MemberOf
from joblane.key.decide import End
from joblane.key.segments import KeyName
from joblane.service.group.settlement import GroupSettlement
from joblane.service.key.release import Handover, KeyRelease, PassedOn
from joblane.service.log import Log
from joblane.service.put_aside import PutAside

if TYPE_CHECKING:  # few jobs tell anything
    from joblane.service.notify.notifications import Notifications, Told

AT_ONCE = 8
"""Keys and groups that are handled at the same time; each waits for AWS most of the time."""

T = TypeVar("T")

Keyed = tuple[str, KeyName]
"""A tenant and the name of one of its keys."""


@dataclass
class _Ends:
    """What ended in a batch."""

    by_key: defaultdict[Keyed, list[End]] = field(default_factory=lambda: defaultdict(list))
    by_group: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The numbers of the members; none of a group that is only to go on."""


@dataclass(frozen=True)
class Sequel:
    """Handles batches of the stream."""

    keys: KeyRelease
    groups: GroupSettlement
    _: KW_ONLY
    notifications: "Callable[[], Notifications] | None" = None
    """Returns what sends notifications; None if no tenant may ask for any and none has a feed."""
    aside: PutAside
    log: Log
    measure: Callable[[Sequence[Handover]], None] = lambda _handovers: None
    """Writes metrics of a batch, once all of it was handled."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def handle(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Handle a batch of stream records; returns how many jobs got a slot.

        A record, a key or a group that cannot be handled is put aside, so that it does not block
        the stream. Raises what is retryable, after all others of the batch; Lambda then delivers
        the batch again.
        """
        records = list(records)
        ends = self._ends(records)
        tasks: list[Callable[[], PassedOn | Failure | None]] = []
        tasks += [partial(self._key, *entry) for entry in ends.by_key.items()]
        tasks += [partial(self._group, *entry) for entry in ends.by_group.items()]
        changed = [record for record in records if TELLS in _new_image(record)]
        if changed and self.notifications is not None:
            tasks.append(partial(self._notify, self.notifications(), changed))
        with self.pool(AT_ONCE) as pool:
            results = list(pool.map(lambda task: task(), tasks))
        released = [result for result in results if isinstance(result, PassedOn)]
        # Also of a batch that comes again: then these jobs have gone, and are not measured twice.
        self.measure([each for key in released for each in key.handovers])
        for result in results:
            if isinstance(result, Failure):
                raise result
        return sum(key.granted for key in released)

    def _ends(self, records: Iterable[Mapping[str, Any]]) -> _Ends:
        found = _Ends()
        ends: Iterator[KeyedEnd | MemberOf | LeftGroup] = self.aside.read(records, _read)
        for ended in ends:
            if isinstance(ended, LeftGroup):
                found.by_group[ended.group_id] |= set()
            elif isinstance(ended, MemberOf):
                found.by_group[ended.group_id].add(ended.index)
            else:
                found.by_key[ended.tenant, ended.key].append(ended.end)
        return found

    def _key(self, key: Keyed, ends: list[End]) -> PassedOn | Failure | None:
        """Handle the ends of one key. Returns what was done, or why to come again."""
        tenant, name = key
        names = {"key": f"{tenant}#{name.encode()}", "jobs": [end.job_id for end in ends]}
        return self._handled("key", names, lambda: self.keys.release(tenant, name, ends))

    def _group(self, group_id: str, members: set[int]) -> Failure | None:
        """Handle the ends of members of one group, or go on with it.

        Returns why to come again, else None.
        """
        names = {"group": group_id, "members": sorted(members)}
        what = partial(self.groups.settle, ended=members) if members else self.groups.resume
        done = self._handled("group", names, lambda: what(group_id))
        return done if isinstance(done, Failure) else None

    def _handled(
        self, what: str, names: Mapping[str, Any], handle: Callable[[], T]
    ) -> T | Failure | None:
        """Handle one key or group, which must never block those of others.

        Returns why to come again, or None if it is put aside.
        """
        try:
            return self.aside.handled(f"a {what} cannot be handled", handle, **names)
        except Failure as error:
            self.log.exception("ends of jobs, which will be handled again", **names)
            return error

    def _notify(
        self, notifications: "Notifications", records: list[Mapping[str, Any]]
    ) -> Failure | None:
        """Send what jobs that changed tell. Returns why to come again, else None."""
        from joblane.service.notify.notifications import Outdated  # few jobs tell anything

        told: list[Told] = []
        outdated: Counter[str] = Counter()
        try:
            found: Iterator[list[Told] | Outdated] = self.aside.read(records, notifications.events)
            for events in found:
                if isinstance(events, Outdated):
                    outdated[events.queue] += 1
                else:
                    told += events
            notifications.send(told)
        except Failure as error:
            self.log.exception("notifications not sent, which will be handled again")
            return error
        if outdated:
            self.log.warning("notifications older than the mapping dropped", queues=dict(outdated))
        return None


def _read(record: Mapping[str, Any]) -> KeyedEnd | MemberOf | LeftGroup | None:
    return read_left(record) or read_end(record)


def _new_image(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item of a record as it is now; empty if it was deleted, or the record is not readable."""
    image: Mapping[str, Any] = (record.get("dynamodb") or {}).get("NewImage") or {}
    return image
