"""What can be done with groups, in one value, and the retry of a page of members."""

from dataclasses import dataclass

from joblane.group.record import PAGE
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.group.cancel import GroupCancel, Swept
from joblane.service.group.delete import GroupDeleter
from joblane.service.group.restart import GroupRestart
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
        self, head: Head, why: str, now_ms: int, *, page: int | None, same_version: bool = False
    ) -> Swept:
        """Retry the failed and dead members of one page.

        The group takes the present version of its type, unless `same_version`. `page` is the
        `following` of an earlier request. Raises NotAllowed for a group that has none
        or that is about to be cancelled, Gone if it is deleted, and TryAgain if it changed on
        every try.
        """
        group = head.group
        if group is None or head.state in {State.COMPLETED, State.SKIPPED}:
            raise NotAllowed(
                f"a group that is {head.state} has no members that failed; resubmit it instead"
            )
        first = (page or 0) * PAGE
        numbers = range(first, min(first + PAGE, group.begun))
        done = self.restart.members(head.job_id, numbers, why, now_ms, same_version=same_version)
        following = None if numbers.stop >= group.begun else numbers.stop // PAGE
        return Swept(len(numbers), done.done, done.refused, following)
