"""Bulk operations on jobs, a page at a time: requeue and restart-failed.

A call costs what its page costs, however many jobs there are; its result says where to continue.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import Lanes
from joblane.aws.typed.types import TypeStore
from joblane.contract.problems import LimitReached, NotFound, TryAgain
from joblane.errors import Unavailable
from joblane.job.head import Head
from joblane.job.message import is_id
from joblane.job.moves import NotAllowed
from joblane.queue.access import open_queues
from joblane.queue.gone import why_gone
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.job.operations import Gone, Operations
from joblane.service.job.wake_up import renewal_delay_s, send_wake_ups
from joblane.state.lifecycle import Event, State
from joblane.typed.built_in import built_in_types

ALL_QUEUES = "_all"
"""Names every queue where an operator names one; it is not a valid queue name."""

_RESTARTED = (State.FAILED, State.DEAD)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a tenant's jobs an operator selected."""

    tenant: str
    queue: str
    """A queue's name, or `ALL_QUEUES`."""
    type: str | None
    """A job type; None selects commands and every type."""

    def holds(self, head: Head) -> bool:
        """Whether a job is selected."""
        return self.queue in (ALL_QUEUES, head.queue) and self.type in (None, head.spec.type)


@dataclass(frozen=True, slots=True)
class BulkResult:
    """Result of one page."""

    examined: int
    done: int
    refused: dict[str, str]
    """Jobs that could not be restarted, each with the reason."""
    following: str | None
    """Where to continue; None at the end."""


def not_now(error: Unavailable) -> str:
    """Why AWS did not let a job be changed: told with the job, the others go on.

    Without the message of AWS, which names what is the deployment's.
    """
    if error.code is not None:
        return f"a service behind this API refused it: {error.code}"
    return "a service behind this API did not answer; try again in a moment"


Change = Callable[[Head], object]
"""Changes one job. Raises NotAllowed, TryAgain, Refused and Gone."""

AT_ONCE = 8
"""Jobs that are changed at the same time; each waits for AWS most of the time."""


def change_jobs(
    heads: Sequence[Head],
    one: Change,
    following: str | None,
    pool: Callable[[int], Executor],
) -> BulkResult:
    """Change jobs side by side; those with a key one by one, as several may have the same.

    So are those of a type, which may get a key when they are restarted.

    `pool` makes an executor of that many workers.
    """
    free = [head for head in heads if head.key is None and head.type_version is None]
    keyed = [head for head in heads if head.key is not None or head.type_version is not None]
    with pool(AT_ONCE) as workers:
        results = [*workers.map(lambda head: why_not(partial(one, head)), free)]
    results += [why_not(partial(one, head)) for head in keyed]
    told = zip((*free, *keyed), results, strict=True)
    refused = {head.job_id: why for head, why in told if why}
    return BulkResult(len(heads), results.count(None), refused, following)


def why_not(change: Callable[[], object]) -> str | None:
    """Change a job. Returns why it was not; empty if it has changed meanwhile, None if it was."""
    try:
        change()
    except (NotAllowed, TryAgain, LimitReached) as refusal:
        return str(refusal)
    except (Gone, Refused):
        return ""
    except Unavailable as error:
        return not_now(error)
    return None


@dataclass(frozen=True)
class BulkOperations:
    """Requeues and restarts jobs in pages."""

    jobs: JobStore
    lanes: Lanes
    operations: Operations
    limits: LimitCheck
    queues: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none means all."""
    types: TypeStore

    def selection(self, tenant: str, queue: str, job_type: str | None) -> Selection:
        """Select a tenant's jobs.

        Raises NotFound for a queue that it may not use, and for a type that it never had; one that
        was removed still has jobs.
        """
        if queue != ALL_QUEUES and queue not in open_queues(self.queues, tenant):
            raise NotFound(f"there is no such queue; {ALL_QUEUES} names all")
        known = job_type is None or job_type in built_in_types()
        if not known and not self.types.latest(tenant, str(job_type)).version:
            raise NotFound(f"there is no such type {job_type}; GET /v1/types lists them")
        return Selection(tenant, queue, job_type)

    def requeue(
        self, selection: Selection, now_ms: int, *, limit: int, before: str | None
    ) -> BulkResult:
        """Send a fresh message for each open job of a page of the tenant's newest ones.

        For all whose messages may be lost, with their queues or otherwise. No row is changed, so
        it is safe at any time: an agent deletes an extra message, or keeps it until its job, which
        runs or waits for its backoff, has ended or is free. A page ends with a group, whose members
        are the next pages. Jobs whose queue is gone are refused, each with what to do.
        """
        job_id, _, number = (before or "").partition(":")
        if number:
            return self._requeue_members(selection, job_id, int(number), now_ms, limit)
        heads, following = self.jobs.page(selection.tenant, limit=limit, before=before)
        for count, head in enumerate(heads, 1):
            if head.state is State.PROCESSING and selection.holds(head):
                heads, following = heads[:count], f"{head.job_id}:0"
                break
        return self._send(
            [head for head in heads if selection.holds(head)], now_ms, heads, following
        )

    def _requeue_members(
        self, selection: Selection, group_id: str, start: int, now_ms: int, limit: int
    ) -> BulkResult:
        """Send messages for members of a group, from the number `start` on."""
        head = self.jobs.get(group_id)
        if head is None or head.group is None or head.tenant != selection.tenant:
            return BulkResult(0, 0, {}, group_id)
        end = min(start + limit, head.group.begun)
        numbers = range(start, end)
        members = self.jobs.heads([head.group.id_of(number) for number in numbers])
        following = f"{group_id}:{end}" if end < head.group.begun else group_id
        return self._send(members, now_ms, members, following)

    def _send(
        self, chosen: Sequence[Head], now_ms: int, examined: Sequence[Head], following: str | None
    ) -> BulkResult:
        due = [
            (head, delay_s)
            for head in chosen
            if (delay_s := renewal_delay_s(head, now_ms)) is not None
        ]
        lost = send_wake_ups(self.lanes, due)
        refused = dict.fromkeys(lost.refused, "SQS did not accept its message; try again")
        refused |= {h.job_id: why_gone(h, now_ms) for h, _ in due if h.job_id in lost.gone}
        return BulkResult(
            examined=len(examined),
            done=len(due) - len(refused),
            refused=dict(sorted(refused.items())),
            following=following,
        )

    def restart_failed(
        self,
        selection: Selection,
        why: str,
        now_ms: int,
        *,
        limit: int,
        after: str | None,
        same_version: bool = False,
    ) -> BulkResult:
        """Restart a page of the tenant's failed jobs, then of its dead ones, counters reset.

        Typed jobs as `Operations.restart`: those that do not fit are refused, and stay.

        Jobs that were restarted have left the list, so a second call never restarts one twice.
        Those that the tenant's limits leave no room for are refused; LimitReached if that is all.
        """
        name, _, before = (after or f"{_RESTARTED[0]}:").partition(":")
        state = State(name)
        heads, older = self.jobs.attention_page(
            selection.tenant, state, limit=limit, before=before or None
        )
        chosen = [head for head in heads if selection.holds(head)]
        accepted, problem = self.limits.admit(selection.tenant, len(chosen))
        if problem is not None and not accepted:
            raise problem
        done = 0
        refused = {head.job_id: problem.detail for head in chosen[accepted:] if problem is not None}
        restart = partial(self.operations.restart, same_version=same_version)
        for head in chosen[:accepted]:
            told = why_not(partial(restart, head, Event.RETRY, why, now_ms))
            done += told is None
            if told:
                refused[head.job_id] = told
        following = f"{state}:{older}" if older else None
        if following is None and state is not _RESTARTED[-1]:
            following = f"{_RESTARTED[_RESTARTED.index(state) + 1]}:"
        return BulkResult(len(heads), done, refused, following)


def is_restart_cursor(text: str) -> bool:
    """Whether a text is a `following` of `restart_failed`."""
    name, _, job_id = text.partition(":")
    return name in _RESTARTED and (not job_id or is_id(job_id))
