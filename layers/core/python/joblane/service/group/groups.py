"""What can be done with groups, in one value, and the retry of a page of members."""

from collections.abc import Sequence
from dataclasses import dataclass

from joblane.group.record import PAGE, Group
from joblane.group.states import failures
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.group.cancel import GroupCancel, Swept
from joblane.service.group.delete import GroupDeleter
from joblane.service.group.restart import RETRIED, GroupRestart
from joblane.service.group.view import GroupReader
from joblane.state.lifecycle import State


@dataclass(frozen=True)
class Groups:
    """Reads, cancels, retries and deletes groups."""

    reader: GroupReader
    cancel: GroupCancel
    restart: GroupRestart
    deleter: GroupDeleter

    def retry(
        self,
        head: Head,
        why: str,
        now_ms: int,
        *,
        page: int | None,
        chosen: Sequence[int] | None = None,
        same_version: bool = False,
    ) -> Swept:
        """Retry the failed and dead members of one page, with `chosen` those of them alone.

        Pages without any are passed over. The group takes the present version of its type, unless
        `same_version`. `page` is the `following` of an earlier request. Raises NotAllowed for a
        group that has none or that is about to be cancelled, Gone if it is deleted, and TryAgain
        if it changed on every try.
        """
        group = head.group
        if head.state is State.SCHEDULED:
            raise NotAllowed("a group that is scheduled has begun no members: none has failed")
        if group is None or (head.state in _WITHOUT_FAILURES and not failures(group.ended)):
            raise NotAllowed(
                f"a group that is {head.state} has no members that failed; resubmit it instead"
            )
        pages = _list_pages(group, page or 0, chosen)
        if not pages:
            return Swept()
        named = set(group.page(pages[0])).intersection(chosen or group.page(pages[0]))
        begun = sorted(number for number in named if number < group.begun)
        refused = (
            {} if chosen is None else _refuse_not_begun(group, sorted(named.difference(begun)))
        )
        following = pages[1] if pages[1:] else None
        if not begun:
            return Swept(len(refused), 0, refused, following)
        done = self.restart.members(
            head.job_id,
            begun,
            why,
            now_ms,
            same_version=same_version,
            continues=page is not None,
            named=chosen is not None,
        )
        examined = len(begun) + len(refused)
        return Swept(examined, done.done, {**done.refused, **refused}, following)


_WITHOUT_FAILURES = frozenset({State.COMPLETED, State.SKIPPED})
"""States of groups none of whose members failed, unless they tolerate some."""


def _refuse_not_begun(group: Group, numbers: Sequence[int]) -> dict[str, str]:
    """Why members that have not begun are not retried, by their ids."""
    why = "it has not begun" if group.stop is None else f"it has not begun: {group.stop.why}"
    return {group.id_of(number): why for number in numbers}


def _list_pages(group: Group, first: int, chosen: Sequence[int] | None) -> list[int]:
    """The pages, from a first one, with members to look at."""
    if chosen is not None:
        named = {number // PAGE for number in chosen}
        return sorted(page for page in named if page >= first)
    return [
        page
        for page in range(first, -(-group.begun // PAGE))
        if page not in group.done or not RETRIED.isdisjoint(group.done[page])
    ]
