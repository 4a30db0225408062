"""Find a tenant's oldest job that waits in a queue, or of a type.

Counts by time of submission say where to look (`joblane.queue.submitted`), the jobs which it is. So
counts that are some seconds late, or that a lost change has left behind, name no wrong job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from joblane.formats.ids import before_id, first_id, nth_id, submitted_ms
from joblane.queue.submitted import Span, Submitted

MOST_ROWS: Final = 500
"""Jobs that a search reads at most for all that one answer shows, as a list does."""

PAGE: Final = 100
"""Of these at once: what one BatchGetItem reads."""

LEAST: Final = 25
"""What a page counts as at least: many spans may have few rows, and each is two requests."""

Of = tuple[Literal["queue", "type"], str]
"""What the oldest job is wanted of: a queue or a job type, and its name."""


class WaitingJob(NamedTuple):
    """A job that could have started and waits."""

    job_id: str
    queue: str
    type: str


class Page(NamedTuple):
    """The jobs of a tenant whose ids follow each other."""

    waiting: Sequence[WaitingJob]
    """Those of them that are `DUE`, the oldest first."""
    rows: int
    """How many were read."""
    last: str | None
    """The highest id that was read; None if there are no more up to the one that was asked for."""


class Read(Protocol):
    """Reads at most PAGE jobs with ids from `first` to `last`, the lowest ones."""

    def __call__(self, first: str, last: str, /) -> Page:
        """Read them."""
        ...


@dataclass(frozen=True, slots=True)
class Oldest:
    """The oldest job that waits."""

    job_id: str | None
    """None if it is not known."""
    earliest_ms: int
    """When it was submitted, in Unix milliseconds; not before this if its id is not known."""
    latest_ms: int
    """Not after this."""


def about(submitted: Submitted) -> Oldest | None:
    """The oldest job as far as counts say, without reading any; None if none waits."""
    spans = submitted.spans()
    return _within(spans[0]) if spans else None


def find_oldest(wanted: Mapping[Of, Submitted], read: Read) -> dict[Of, Oldest]:
    """Find the oldest jobs, reading MOST_ROWS at most; those without one are left out.

    Spans are read from the oldest one on, each once for all that have jobs in it. What is not found
    by then is known by the first span that was not read to its end.
    """
    found: dict[Of, Oldest] = {}
    left = MOST_ROWS
    for span in sorted({span for submitted in wanted.values() for span in submitted.spans()}):
        missing = {of for of in wanted.keys() - found if wanted[of].by_span.get(span, 0) > 0}
        for page in _pages(span, read) if missing else ():
            for job in page.waiting:
                its: set[Of] = {("queue", job.queue), ("type", job.type)}
                at_ms = submitted_ms(job.job_id)
                found |= dict.fromkeys(its & missing, Oldest(job.job_id, at_ms, at_ms))
                missing -= its
            left -= max(page.rows, LEAST)
            if left < PAGE and missing and page.last is not None:
                rest = _within(span)
                for of in missing:
                    found[of] = Oldest(None, submitted_ms(page.last), rest.latest_ms)
                missing.clear()
            if not missing:
                break
        if left < PAGE:
            return {**_unread(wanted, span), **found}
    return found


def _unread(wanted: Mapping[Of, Submitted], read: Span) -> dict[Of, Oldest]:
    """What is known of those whose spans after the last one that was read were not read."""
    left = {of: [span for span in each.spans() if span > read] for of, each in wanted.items()}
    return {of: _within(spans[0]) for of, spans in left.items() if spans}


def _pages(span: Span, read: Read) -> Iterator[Page]:
    first, end = first_id(span.start * 60_000), before_id(first_id(span.end * 60_000))
    while end is not None:
        page = read(first, end)
        yield page
        if page.last is None or page.last >= end:
            return
        first = nth_id(page.last, 1)


def _within(span: Span) -> Oldest:
    return Oldest(None, span.start * 60_000, span.end * 60_000 - 1)
