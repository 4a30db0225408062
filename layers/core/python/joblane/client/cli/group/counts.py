"""How many members of a group are in each state, as text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from joblane.client.cli.text.progress_bar import bar
from joblane.group.states import FAILURES
from joblane.state.lifecycle import ENDED

if TYPE_CHECKING:
    from joblane.client.models import GroupPage


def counts_bar(page: "GroupPage") -> str:
    """The bar of a group, how many members are in which state, and which failed."""
    members, counts = page.group.members, page.counts
    if members is None or counts is None:
        return page.group.reason
    done = sum(count for state, count in counts.items() if state in ENDED)
    states = counts_text(counts)
    failed = f"; failed: {page.failed_indices}" if page.failed_indices else ""
    return f"{bar(done, members)} {done:,} of {members:,} ended: {states}{failed}"


def counts_text(counts: Mapping[str, int]) -> str:
    """How many members are in each state."""
    return ", ".join(f"{count:,} {state}" for state, count in counts.items())


def count_failed(counts: Mapping[str, int] | None) -> int:
    """How many members failed."""
    return sum(count for state, count in (counts or {}).items() if state in FAILURES)
