"""Deletes a group with all its members: the members first, the group last.

So while anything of a group is there, the group is there, and the request can be repeated:

    API                          table
    members of page 0  ----->    deleted, with their output
    (killed here)
    again: page 0 has no rows
    members of page 1  ----->    deleted
    roster, group  --------->    deleted

Each member is deleted only if it has not changed since it was read, and the group only if its
version is the same; so a retry that comes in between is not undone.
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.job.groups import GroupStore
from joblane.aws.job.jobs import Refused
from joblane.contract.problems import TryAgain
from joblane.errors import Changed
from joblane.group.record import Group
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.job.delete import JobDeleter

AT_ONCE = 8
"""Members that are deleted at the same time; each waits for AWS most of the time."""

MOST_S = 15.0
"""Seconds after which a request begins no further page."""


@dataclass(frozen=True)
class GroupDeleter:
    """Deletes groups. Every method may be called again after a crash at any point."""

    groups: GroupStore
    deleter: JobDeleter
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def delete(self, head: Head) -> None:
        """Delete a group as it was read, with its members and their output.

        Raises NotAllowed while a member is open, Refused if the group has changed, and TryAgain
        if there is so much that the request has to be repeated.
        """
        group = head.group
        if group is None:
            raise ValueError(f"job {head.job_id} is no group")
        if not head.ended:
            raise NotAllowed(
                f"a group that is {head.state} cannot be deleted: some of its members have not "
                f"ended; cancel it first, by POST /v1/groups/{head.job_id}/cancel"
            )
        self.deleter.keep(head)
        began = self.deleter.clock()
        for page in range(group.pages):
            self._page(group, page)
            if page + 1 < group.pages and self.deleter.clock() - began > MOST_S:
                raise TryAgain(
                    f"{(page + 1) * 100} of the group's {group.members} members are deleted; "
                    "send the request again",
                    retry_after_s=1,
                )
        self.groups.delete_beside(head)
        try:
            self.groups.delete_group(head)
        except Changed:
            raise Refused(self.groups.get(head.job_id)) from None
        self.deleter.payloads.delete(head)

    def _page(self, group: Group, page: int) -> None:
        ids = [group.id_of(index) for index in group.page(page) if index < group.begun]
        heads = self.groups.heads(ids, consistent=True)
        with self.pool(AT_ONCE) as pool:
            for _ in pool.map(self._member, heads):
                pass

    def _member(self, head: Head) -> None:
        if not head.ended:
            raise NotAllowed(
                f"member {head.job_id} was retried meanwhile and is {head.state}; cancel the group "
                "first"
            )
        self.deleter.remove(head)
