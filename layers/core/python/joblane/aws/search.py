"""Finding a tenant's jobs: a page of those that filters let through, at a bounded price.

No index is kept for filters, because each would cost every job a write unit or two. States that
need attention have one; everything else is looked for among the newest jobs, at most
`EXAMINED_MAX` rows a request, and an answer that found less than was asked for says where to go
on. A page hence costs at most 5 queries of keys and 5 batches of heads, however many jobs there
are and however few match.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.job_table import JobTable
from joblane.head import Head
from joblane.ids import first_id
from joblane.lifecycle import NEEDS_ATTENTION
from joblane.queries import ListJobs
from joblane.times import unix_ms

EXAMINED_MAX = 500
"""Rows that one request looks at: 63 read units at 1 KB each."""

_PAGE = 100  # heads of one BatchGetItem


@dataclass(frozen=True, slots=True)
class Found:
    """A page of what was looked for."""

    heads: list[Head]
    following: str | None
    """Id to go on from; None when there is no more."""


def search(jobs: JobTable, tenant: str, query: ListJobs, before: str | None, now_s: float) -> Found:
    """Read the newest jobs that `query` asks for, older than the id `before`."""
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
        matching = [head for head in heads if _matches(head, query, now_s)]
        found += matching[:room]
        if len(matching) > room:
            return Found(found, found[-1].job_id)
        if following is None or len(found) == query.limit:
            return Found(found, following)
        before, size = following, _PAGE
    return Found(found, before)


_Source = Callable[[int, str | None], tuple[list[Head], str | None]]


def _source(jobs: JobTable, tenant: str, query: ListJobs) -> _Source:
    """The narrowest index: so many rows, older than an id, and where to go on."""
    since = None if query.since is None else first_id(unix_ms(query.since))
    state = query.state
    if state is not None and state in NEEDS_ATTENTION:
        return lambda limit, before: jobs.attention_page(
            tenant, state, limit=limit, before=before, since=since
        )
    return lambda limit, before: jobs.page(tenant, limit=limit, before=before, since=since)


def _takes_all(query: ListJobs) -> bool:
    """Whether nearly every row is one that is wanted."""
    in_attention = query.state in {None, *NEEDS_ATTENTION}
    return in_attention and query.type is query.queue is query.label is None


def _matches(head: Head, query: ListJobs, now_s: float) -> bool:
    """Whether a job is wanted; what TTL has not yet deleted is gone for everybody."""
    if head.expires_at is not None and head.expires_at <= now_s:
        return False
    if head.hidden and not query.hidden:
        return False
    name, _, value = (query.label or "").partition("=")
    return (
        query.state in {None, head.state}
        and query.type in {None, head.spec.type}
        and query.queue in {None, head.queue}
        and (query.label is None or head.spec.labels.get(name) == value)
    )
