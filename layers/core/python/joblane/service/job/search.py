"""Search a tenant's jobs: a page of those that filters select, newest first.

Filters have no index, because each would cost every job a write unit or two. States that few jobs
are in have one (`joblane.state.lifecycle.INDEXED`), and running jobs are in the heartbeats of
agents; several such states are merged. Everything else is searched among the newest jobs. A request
reads at most `EXAMINED_MAX` rows, and an answer that found fewer jobs than were asked for says
where to continue. So a page costs at most 5 batches of heads, and 5 queries of keys for each state,
however many jobs there are and however few match.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from joblane.aws.fleet.agents import SHARDS, AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.table import IdPage
from joblane.contract.queries import ListJobs
from joblane.formats.ids import first_id
from joblane.formats.times import unix_ms
from joblane.job.head import Head
from joblane.state.lifecycle import INDEXED, State

EXAMINED_MAX = 500
"""Rows that one request examines: 63 read units at 1 KB each."""

NEWEST = 100
"""Jobs that are looked at as well in a list of running ones: an agent that has just claimed a job
says so with its next heartbeat."""

_PAGE = 100  # heads of one BatchGetItem

Ids = Callable[[int, str | None], IdPage]
"""Reads at most so many ids below an id, newest first, and where to continue."""


@dataclass(frozen=True)
class JobSearch:
    """Reads jobs that filters select."""

    jobs: JobStore
    agents: AgentStore
    clock: Callable[[], float]
    """Returns Unix seconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def page(
        self, tenant: str, query: ListJobs, before: str | None, *, consistent: bool = False
    ) -> tuple[list[Head], str | None]:
        """Read the newest jobs that `query` selects, at most its limit, older than the id `before`.

        Also returns the id to continue from; None at the end. With `consistent` the jobs are as
        they are now; one that has just come into a state may be missing all the same.
        """
        source, now_s = self._source(tenant, query), self.clock()
        if query.until is not None:
            end = first_id(unix_ms(query.until))
            before = end if before is None else min(before, end)
        found: list[Head] = []
        left = EXAMINED_MAX
        size = query.limit if _takes_all(query) else _PAGE
        while left > 0:
            ids, following = source(min(size, left), before)
            left -= size
            room = query.limit - len(found)
            matching = [
                head
                for head in self.jobs.heads(ids, consistent=consistent)
                if head.visible_to(tenant, now_s) and head.member_of is None and query.matches(head)
            ]
            found += matching[:room]
            if len(matching) > room:
                return found, found[-1].job_id
            if following is None or len(found) == query.limit:
                return found, following
            before, size = following, _PAGE
        return found, before

    def _source(self, tenant: str, query: ListJobs) -> Ids:
        """The narrowest lists of ids that hold every job of the query."""
        since = None if query.since is None else first_id(unix_ms(query.since))
        if not _is_rare(query):
            return lambda limit, before: self.jobs.newest_ids(
                tenant, limit=limit, before=before, since=since
            )
        return merge([self._of_state(tenant, state, since) for state in dict.fromkeys(query.state)])

    def _of_state(self, tenant: str, state: State, since: str | None) -> Ids:
        if state is State.ACTIVE:
            return among(self._maybe_active(tenant, since))
        return lambda limit, before: self.jobs.attention_ids(
            tenant, state, limit=limit, before=before, since=since
        )

    def _maybe_active(self, tenant: str, since: str | None) -> set[str]:
        """Ids of every job that may be running: as agents say, and the newest ones."""
        newest, _ = self.jobs.newest_ids(tenant, limit=NEWEST, before=None, since=since)
        with self.pool(SHARDS) as pool:
            held = self.agents.jobs_of(tenant, pool)
        return {*newest, *(job_id for job_id in held if since is None or job_id >= since)}


def among(ids: set[str]) -> Ids:
    """Read from ids that are known."""
    descending = sorted(ids, reverse=True)

    def read(limit: int, before: str | None) -> IdPage:
        left = [job_id for job_id in descending if before is None or job_id < before]
        return left[:limit], left[limit - 1] if len(left) > limit else None

    return read


def merge(sources: Sequence[Ids]) -> Ids:
    """Read from several lists as from one; each is read for a whole page, which may be all its."""

    def read(limit: int, before: str | None) -> IdPage:
        pages = [source(limit, before) for source in sources]
        known = sorted({job_id for ids, _ in pages for job_id in ids}, reverse=True)
        more = len(known) > limit or any(following is not None for _, following in pages)
        return known[:limit], known[:limit][-1] if more else None

    return read


def _is_rare(query: ListJobs) -> bool:
    """Whether all of its states have lists of their own."""
    return bool(query.state) and all(
        state in INDEXED or state is State.ACTIVE for state in query.state
    )


def _takes_all(query: ListJobs) -> bool:
    """Whether nearly every row matches, so that a small first page is enough."""
    return (not query.state or _is_rare(query)) and not query.narrows
