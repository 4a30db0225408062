"""Calls that concern groups: arrays, and jobs with a target of several agents."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

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
from joblane.client.group_follow import (
    GroupNews,
    GroupPoll,
    follow_group,
    group_pace,
    watch_group,
)
from joblane.client.group_results import MemberResult, read_results
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
        page = yield from Groups.page(self, group_id, limit=1, counts=False)
        return self._handle(page["group"])

    @answers(models.GroupPage)
    def page(
        self,
        group_id: str,
        *,
        limit: int = LIST_MAX,
        cursor: str | None = None,
        state: str | Sequence[str] | None = None,
        indices: str | None = None,
        counts: bool | None = None,
        retry: bool = True,
    ) -> Call[GroupPage]:
        """Read the group and one page of its members, in the order of their indices.

        `cursor` is the `next` of the previous page. With `state`, members in one of these states; a
        page may then be short, even empty, and still have a `next`. With `indices`, those with
        these, such as `3,5-9`. The first page has the `counts` of all members and the
        `failed_indices`, unless `indices` are given or `counts` is False: they take a read unit for
        each member that has begun among any hundred of which some have not ended. `retry` False
        sends the request once.
        """
        params: dict[str, str | int | Sequence[str] | None] = {
            "limit": min(limit, LIST_MAX),
            "next": cursor or None,
            "state": state,
            "indices": indices,
            "counts": None if counts is None else str(counts).lower(),
        }
        return group_page((yield from get(group_path(group_id), params, retry=retry)))

    @ApiStream
    def members(
        self,
        group_id: str,
        *,
        state: str | Sequence[str] | None = None,
        indices: str | None = None,
    ) -> Stream[models.Member]:
        """Yield members, in the order of their indices; pages are read as needed.

        All of them, or those that `state` and `indices` select, see `page`.
        """
        read = partial(Groups.page, self, group_id, state=state, indices=indices, counts=False)
        return list_entries(read, None, models.Member)

    @ApiStream
    def results(self, group_id: str, *, indices: str | None = None) -> Stream[MemberResult[Any]]:
        """Yield what became of each member, with its result, in the order of their indices.

        Of all, or of those with `indices`, such as `3,5-9`. A hundred members are read in a
        request, and of results of more than 1,024 bytes each job. `ArrayRef.results` has results as
        a handler declares them.
        """
        return read_results(partial(Groups.page, self), group_id, None, indices)

    @ApiStream
    def watch(
        self,
        group_id: str,
        *,
        policy: FollowPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> Stream[models.GroupPage]:
        """Yield how far a group has come, whenever that has changed, until it has ended.

        Each has the `counts` of members by state and the `failed_indices`, and no `entries` to rely
        on: one request for a group of any size. It takes a read unit for each member that has begun
        among any hundred of which some have not ended, and is sent as often as `follow` says.
        """

        def read() -> Call[GroupPage]:
            return Groups.page(self, group_id, limit=1, retry=False)

        policy = policy or (yield from self._pace(group_id))
        yield from watch_group(read, self._policy(group_id, policy), runtime)

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
        may be none. Only pages of a hundred members of which some have not ended are read again,
        one request and a hundred read units each: all of them each 0.2 s in a group of 40 members,
        and each 5 s from 1,000 on. Without news the interval grows to 5 s. An API that does not
        answer is waited for, see `Client.logs`. Raises `NotFoundError` and `FollowError`.
        """

        def read(cursor: str | None) -> Call[GroupPage]:
            return Groups.page(self, group_id, cursor=cursor, counts=False, retry=False)

        def head() -> Call[JobJson]:
            return job_json((yield from get(job_path(group_id), retry=False)))

        policy = self._policy(group_id, policy or (yield from self._pace(group_id)))
        yield from follow_group(GroupPoll(read, head, policy, runtime or Runtime()))

    def _pace(self, group_id: str) -> Call[FollowPolicy]:
        """The intervals of following a group, by its size."""
        return group_pace(job_json((yield from get(job_path(group_id)))).get("members"))

    @ApiStream
    def cancel(self, group_id: str, *, reason: str | None = None) -> Stream[models.JobsCancelled]:
        """Cancel all members that have not ended; those that have not begun never do.

        Yields the answer for each page of members, with the numbers `examined` and `cancelled`;
        stop iterating to stop. Raises `RequestError` (409) for a group that has ended.
        """
        return sweep(f"{group_path(group_id)}/cancel", models.JobsCancelled, reason)

    @ApiStream
    def retry(
        self,
        group_id: str,
        *,
        indices: str | None = None,
        same_version: bool = False,
        reason: str | None = None,
    ) -> Stream[models.JobsRetried]:
        """Restart the members that failed: same ids and indices, attempts reset.

        With `indices`, such as `3,5-9`, these alone; in `refused` are those of them, by their
        `index`, that are neither failed nor dead. Yields the answer for each page of members, with
        the numbers `examined` and `retried`. A group of a type takes its present version, unless
        `same_version`; raises `RequestError` (409) if that does not take it.
        """
        body: dict[str, Any] | None = restart_body(same_version)
        if indices is not None:
            body = {**(body or {}), "indices": indices}
        return sweep(f"{group_path(group_id)}/retry", models.JobsRetried, reason, body=body)


def group_path(group_id: str) -> str:
    """Path of a group. Raises `InputError`."""
    return f"/v1/groups/{segment(group_id, 'id of a group')}"
