"""Calls that concern groups: jobs with a target of several agents, which became a job for each."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from joblane.client import models
from joblane.client.answers import GroupPage, JobJson, group_page, job_json
from joblane.client.calls import (
    LIST_MAX,
    ApiCall,
    ApiStream,
    C,
    Call,
    Caller,
    Stream,
    answers,
    get,
    list_entries,
    restart_body,
    segment,
    sweep,
)
from joblane.client.follow import FollowPolicy, Runtime
from joblane.client.group_follow import GROUP, GroupNews, follow_group
from joblane.client.log_calls import job_path

J = TypeVar("J")


class Groups(Caller[C], Generic[J, C]):
    """The calls, as `client.groups`; J is the client's type of a job.

    A group is a job itself: `client.get`, `wait`, `delete` and `resubmit` take its id.
    """

    def __init__(
        self,
        connection: C,
        handle: Callable[[JobJson], J],
        policy: Callable[[str, FollowPolicy | None], FollowPolicy],
    ) -> None:
        self._connection = connection
        self._handle = handle
        self._policy = policy

    @ApiCall
    def get(self, group_id: str) -> Call[J]:
        """Read the job of a group. Raises `NotFoundError`, also for a job that is no group."""
        page = yield from Groups.page(self, group_id, limit=1)
        return self._handle(page["group"])

    @answers(models.GroupPage)
    def page(
        self,
        group_id: str,
        *,
        limit: int = LIST_MAX,
        cursor: str | None = None,
        retry: bool = True,
    ) -> Call[GroupPage]:
        """Read the group and one page of its members, in the order of their agents' names.

        `cursor` is the `next` of the previous page. `retry` False sends the request once.
        """
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None}
        return group_page((yield from get(_path(group_id), params, retry=retry)))

    @ApiStream
    def members(self, group_id: str) -> Stream[models.Member]:
        """Yield all members, in the order of their agents' names; pages are read as needed."""
        return list_entries(partial(Groups.page, self, group_id), None, models.Member)

    @ApiStream
    def follow(
        self,
        group_id: str,
        *,
        policy: FollowPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> Stream[GroupNews]:
        """Yield the members that have ended, each once, until the group has ended.

        A `GroupNews` has the group as it was just read and the members that have ended since, which
        may be none. An API that does not answer is waited for, see `Client.logs`. Raises
        `NotFoundError` and `FollowError`.
        """

        def read(cursor: str | None) -> Call[GroupPage]:
            return Groups.page(self, group_id, cursor=cursor, retry=False)

        def head() -> Call[JobJson]:
            return job_json((yield from get(job_path(group_id), retry=False)))

        return follow_group(read, head, self._policy(group_id, policy or GROUP), runtime)

    @ApiStream
    def cancel(self, group_id: str, *, reason: str | None = None) -> Stream[models.JobsCancelled]:
        """Cancel all members that have not ended; those that have not begun never do.

        Yields the answer for each page of members, with the numbers `examined` and `cancelled`;
        stop iterating to stop. Raises `RequestError` (409) for a group that has ended.
        """
        return sweep(f"{_path(group_id)}/cancel", models.JobsCancelled, reason)

    @ApiStream
    def retry(
        self, group_id: str, *, same_version: bool = False, reason: str | None = None
    ) -> Stream[models.JobsRetried]:
        """Restart the members that failed: same ids, attempts reset.

        Yields the answer for each page of members, with the numbers `examined` and `retried`. A
        group of a type takes its present version, unless `same_version`; raises `RequestError`
        (409) if that does not take it.
        """
        body = restart_body(same_version)
        return sweep(f"{_path(group_id)}/retry", models.JobsRetried, reason, body=body)


def _path(group_id: str) -> str:
    return f"/v1/groups/{segment(group_id, 'id of a group')}"
