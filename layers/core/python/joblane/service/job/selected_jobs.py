"""Bulk operations on the jobs that filters select: cancel and retry, a page at a time.

A request works on one page, and its result says where to continue. Each job is changed as it was
read or not at all, so one that another request, its agent or the clock has changed meanwhile is
left out:

    API                          table                      agent
    reads pending, epoch 0
                                 active, epoch 1   <------  claim
    cancel if pending, 0  --->   refused: it is none of `state=pending` any more
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from joblane.contract.problems import LimitReached, TryAgain
from joblane.contract.queries import SelectJobs
from joblane.errors import Unavailable
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.job.bulk import BulkResult, Change, change_jobs, not_now
from joblane.service.job.operations import Gone, Operations
from joblane.service.job.search import JobSearch
from joblane.state.lifecycle import OPEN, RETRIABLE, Event

if TYPE_CHECKING:
    from joblane.service.group.cancel import Swept
    from joblane.service.group.groups import Groups

PageChange = Callable[[Head, int | None], "Swept"]
"""Changes a page of members of a group. Raises NotAllowed, TryAgain, LimitReached and Gone."""


@dataclass(frozen=True)
class SelectedJobs:
    """Cancels and retries jobs in pages. Every method may be called again after a crash."""

    search: JobSearch
    operations: Operations
    groups: "Callable[[], Groups]"
    find: Callable[[str, str], Head | None]
    """Reads a tenant's job; None if there is none."""
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def cancel(
        self, tenant: str, query: SelectJobs, why: str, now_ms: int, after: str | None
    ) -> BulkResult:
        """Cancel a page of jobs; running ones are stopped. Without states: those not ended.

        `after` is the `following` of an earlier request.
        """

        def one(head: Head) -> object:
            return self.operations.cancel(head, why, now_ms, exact=True)

        def members(head: Head, page: int | None) -> "Swept":
            return self.groups().cancel.cancel(head, why, now_ms, page=page)

        return self._page(tenant, query.within(OPEN), after, one, members)

    def retry(
        self,
        tenant: str,
        query: SelectJobs,
        why: str,
        now_ms: int,
        after: str | None,
        *,
        same_version: bool = False,
    ) -> BulkResult:
        """Retry a page of jobs, counters reset. Without states: those that can be retried.

        As `cancel`. Of a group, its failed and dead members are retried.
        """

        def one(head: Head) -> object:
            return self.operations.restart(
                head, Event.RETRY, why, now_ms, exact=True, same_version=same_version
            )

        def members(head: Head, page: int | None) -> "Swept":
            return self.groups().retry(head, why, now_ms, page=page, same_version=same_version)

        return self._page(tenant, query.within(RETRIABLE), after, one, members)

    def _page(
        self,
        tenant: str,
        query: SelectJobs,
        after: str | None,
        one: Change,
        members: PageChange,
    ) -> BulkResult:
        """Change one page; it ends with a group, of which further pages are the next ones."""
        before, _, number = (after or "").partition(":")
        if number:
            group = self.find(tenant, before)
            if group is None or group.group is None:
                return BulkResult(0, 0, {}, before)
            return _change_group(group, int(number), members, before)
        heads, following = self.search.page(tenant, query, before or None, consistent=True)
        number_of_group = next((n for n, head in enumerate(heads) if head.group is not None), None)
        if number_of_group is None:
            return change_jobs(heads, one, following, self.pool)
        group = heads[number_of_group]
        jobs = change_jobs(heads[:number_of_group], one, following, self.pool)
        rest = following if group is heads[-1] else group.job_id
        swept = _change_group(group, None, members, rest)
        return BulkResult(
            jobs.examined + swept.examined,
            jobs.done + swept.done,
            {**jobs.refused, **swept.refused},
            swept.following,
        )


def _change_group(
    head: Head, page: int | None, members: PageChange, following: str | None
) -> BulkResult:
    """Change a page of members; `following` is where to continue after the group."""
    try:
        swept = members(head, page)
    except (NotAllowed, TryAgain, LimitReached) as refusal:
        return BulkResult(1, 0, {head.job_id: str(refusal)}, following)
    except Gone:
        return BulkResult(1, 0, {}, following)
    except Unavailable as error:
        return BulkResult(1, 0, {head.job_id: not_now(error)}, following)
    if swept.following is not None:
        following = f"{head.job_id}:{swept.following}"
    return BulkResult(swept.examined, swept.done, swept.refused, following)
