"""Replay and dismiss the dead jobs that filters select, a page at a time.

Each is changed as it was read or not at all, as in `joblane.service.job.selected_jobs`. One that
was changed has left the list, so a request that was interrupted may be sent again.
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.contract.operator_queries import SelectDead
from joblane.job.head import Head
from joblane.service.job.bulk import BulkResult, Change, change_jobs
from joblane.service.job.operations import Operations
from joblane.service.job.search import JobSearch
from joblane.state.lifecycle import Event


@dataclass(frozen=True)
class SelectedDead:
    """Replays and dismisses dead jobs in pages. Both may be called again after a crash."""

    search: JobSearch
    operations: Operations
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def replay(
        self,
        tenant: str,
        query: SelectDead,
        why: str,
        now_ms: int,
        after: str | None,
        *,
        same_version: bool = False,
    ) -> BulkResult:
        """Replay a page of dead jobs, counters reset; `after` is an earlier `following`."""

        def one(head: Head) -> object:
            return self.operations.restart(
                head, Event.REPLAY, why, now_ms, exact=True, same_version=same_version
            )

        return self._page(tenant, query, after, one)

    def dismiss(
        self, tenant: str, query: SelectDead, why: str, now_ms: int, after: str | None
    ) -> BulkResult:
        """Dismiss a page of dead jobs; `after` is an earlier `following`."""

        def one(head: Head) -> object:
            return self.operations.decide(head, Event.DISMISS, why, now_ms, exact=True)

        return self._page(tenant, query, after, one)

    def _page(self, tenant: str, query: SelectDead, after: str | None, one: Change) -> BulkResult:
        heads, following = self.search.page(tenant, query.as_jobs, after, consistent=True)
        return change_jobs(heads, one, following, self.pool)
