"""Delete the jobs that filters select, a page at a time.

Each job is deleted as it was read or not at all. A request begins no further job after some
seconds, and its result says where to continue; so does one that meets a job or a group of which
one request deletes a part only: the next request continues with that one.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from joblane.aws.job.jobs import Refused
from joblane.contract.problems import TryAgain
from joblane.contract.queries import SelectJobs
from joblane.errors import Unavailable
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.job.bulk import BulkResult, not_now
from joblane.service.job.delete import JobDeleter
from joblane.service.job.operations import Gone
from joblane.service.job.search import JobSearch
from joblane.state.lifecycle import ENDED

if TYPE_CHECKING:
    from joblane.service.group.groups import Groups

AT_ONCE = 8
"""Jobs that are deleted at the same time; each waits for AWS most of the time."""

MOST_S = 5.0
"""Seconds after which a request begins no further job. The deletion of one with much output takes
15 s at most (`joblane.service.job.delete`), and the function is stopped after 29 s."""


@dataclass(frozen=True, slots=True)
class _Deletion:
    """What became of a job."""

    job_id: str
    refused: str | None = None
    """Why it was not deleted; empty if it has changed meanwhile."""
    partly: bool = False
    """Whether there is more to delete than one request deletes."""


@dataclass(frozen=True)
class SelectedDeletion:
    """Deletes jobs in pages. May be called again after a crash at any point."""

    search: JobSearch
    deleter: JobDeleter
    groups: "Callable[[], Groups]"
    find: Callable[[str, str], Head | None]
    """Reads a tenant's job; None if there is none."""
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def delete(self, tenant: str, query: SelectJobs, after: str | None) -> BulkResult:
        """Delete a page of jobs with their output; groups with their members.

        Without states: those that have ended. `after` is the `following` of an earlier request.
        """
        query = query.within(ENDED)
        before, _, again = (after or "").partition(":")
        if again:
            head = self.find(tenant, before)
            return _result([] if head is None else [self._one(head)], before)
        heads, following = self.search.page(tenant, query, before or None, consistent=True)
        done = list(self._in_time(heads))
        if len(done) < len(heads):
            following = done[-1].job_id
        return _result(done, following)

    def _in_time(self, heads: Sequence[Head]) -> Iterator[_Deletion]:
        """Delete several jobs at a time, until one takes more than a request or time is up."""
        began = self.deleter.clock()
        for some in _together(heads):
            with self.pool(len(some)) as pool:
                done = [*pool.map(self._one, some)]
            yield from done
            if any(each.partly for each in done) or self.deleter.clock() - began > MOST_S:
                return

    def _one(self, head: Head) -> _Deletion:
        try:
            if head.group is None:
                self.deleter.delete(head, exact=True)
            else:
                self.groups().deleter.delete(head)
        except NotAllowed as refusal:
            return _Deletion(head.job_id, str(refusal))
        except (Gone, Refused):
            return _Deletion(head.job_id, "")
        except TryAgain:
            return _Deletion(head.job_id, partly=True)
        except Unavailable as error:
            return _Deletion(head.job_id, not_now(error))
        return _Deletion(head.job_id)


def _together(heads: Sequence[Head]) -> Iterator[Sequence[Head]]:
    """Split jobs into those that are deleted together: a few, or a group, which has its members."""
    some: list[Head] = []
    for head in heads:
        if some and (head.group is not None or len(some) == AT_ONCE):
            yield some
            some = []
        some.append(head)
        if head.group is not None:
            yield some
            some = []
    if some:
        yield some


def _result(done: Sequence[_Deletion], following: str | None) -> BulkResult:
    """Count what was done; jobs behind one that is partly deleted come again if they are left."""
    partly = next((index for index, each in enumerate(done) if each.partly), None)
    deleted = [each for each in done if each.refused is None and not each.partly]
    if partly is not None:
        following = f"{done[partly].job_id}:0"
    refused = {each.job_id: each.refused for each in done[:partly] if each.refused}
    examined = {each.job_id for each in (*done[:partly], *deleted)}
    return BulkResult(len(examined), len(deleted), refused, following)
