"""Search a tenant's jobs: a page of those that filters select, at a bounded cost.

Filters have no index, because each would cost every job a write unit or two. States that need
attention have one; everything else is searched among the newest jobs, at most `EXAMINED_MAX` rows
a request, and an answer that found fewer jobs than were asked for says where to continue. So a
page costs at most 5 queries of keys and 5 batches of heads, however many jobs there are and
however few match.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.job_table import JobTable
from joblane.contract.queries import ListJobs
from joblane.formats.ids import first_id
from joblane.formats.times import unix_ms
from joblane.job.head import Head
from joblane.job.lifecycle import NEEDS_ATTENTION

EXAMINED_MAX = 500
"""Rows that one request examines: 63 read units at 1 KB each."""

_PAGE = 100  # heads of one BatchGetItem


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a search."""

    heads: list[Head]
    following: str | None
    """Id to continue from; None at the end."""


def search(jobs: JobTable, tenant: str, query: ListJobs, before: str | None, now_s: float) -> Found:
    """Read the newest jobs that `query` selects, older than the id `before`."""
    page = _source(jobs, tenant, query)
    if query.until is not None:
        end = first_id(unix_ms(query.until))
        before = end if before is None else min(before, end)
    found: list[Head] = []
    left = EXAMINED_MAX
    size = query.limit if _takes_all(query) else _PAGE
    while left > 0:
        heads, following = page(min(size, left), before)
        left -= size
        room = query.limit - len(found)
        matching = [
            head for head in heads if head.visible_to(tenant, now_s) and query.matches(head)
        ]
        found += matching[:room]
        if len(matching) > room:
            return Found(found, found[-1].job_id)
        if following is None or len(found) == query.limit:
            return Found(found, following)
        before, size = following, _PAGE
    return Found(found, before)


_Source = Callable[[int, str | None], tuple[list[Head], str | None]]


def _source(jobs: JobTable, tenant: str, query: ListJobs) -> _Source:
    """The narrowest index, as a function that reads a number of rows older than an id."""
    since = None if query.since is None else first_id(unix_ms(query.since))
    state = query.state
    if state is not None and state in NEEDS_ATTENTION:
        return lambda limit, before: jobs.attention_page(
            tenant, state, limit=limit, before=before, since=since
        )
    return lambda limit, before: jobs.page(tenant, limit=limit, before=before, since=since)


def _takes_all(query: ListJobs) -> bool:
    """Whether nearly every row matches, so that a small first page is enough."""
    return query.state in {None, *NEEDS_ATTENTION} and not query.narrows
