"""The routes of groups: show one with its members, cancel it, retry the members that failed."""

import re
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.groups import MAX_RETRY_BYTES, GroupPage, GroupQuery, GroupRestart
from joblane.contract.job import job_view
from joblane.contract.problems import wrong
from joblane.contract.query import MembersQuery
from joblane.contract.route_tables.groups import GROUP_ROUTES
from joblane.contract.views import JobsCancelled, JobsRetried, LeftOut
from joblane.group.array import NotAnIndex, as_ranges, parse_ranges
from joblane.http.answers import next_cursor, page_start, success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.job.head import Head
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.group.view import kind_of
from joblane.state.lifecycle import State

if TYPE_CHECKING:  # most requests concern no group
    from collections.abc import Callable

    from joblane.group.array import Indices
    from joblane.service.group.cancel import Swept
    from joblane.service.group.groups import Groups
    from joblane.service.group.view import CountedMembers


def group_routes(app: Application, groups: "Callable[[], Groups]", limits: LimitCheck) -> None:
    """Bind the routes of groups; `groups` returns what reads and changes them."""
    app.add(GROUP_ROUTES)

    @app.route("GET /v1/groups/{group}")
    def show(group: str) -> Response[str]:
        query = app.parameters(GroupQuery)
        after = page_start(query, _is_number)
        reader = groups().reader
        head = reader.require(app.tenant(), group)
        start = None if after is None else int(after)
        entries, last, changed = reader.members(
            head,
            limit=query.limit,
            after=start,
            states=query.state,
            chosen=_chosen(head, query.indices),
        )
        following = None if last is None else str(last)
        counted = reader.count(head) if query.counted else None
        indices = None if head.group is None else head.group.array
        return success(
            GroupPage(
                group=job_view(head),
                kind=kind_of(head),
                counts=None if counted is None else dict(counted.counts),
                failed_indices=None if counted is None else as_ranges(counted.failed, indices),
                indices=None if counted is None else _ranges(counted, indices),
                changed=changed,
                entries=tuple(entries),
                limit=query.limit,
                next=next_cursor(query, following),
            )
        )

    @app.route("POST /v1/groups/{group}/cancel")
    def cancel(group: str) -> Response[str]:
        now_ms = app.now_ms()
        head = groups().reader.require(app.tenant(), group)
        why, page = app.describe_request("cancelled", now_ms), _page()
        with conflicts():
            swept = groups().cancel.cancel(head, why, now_ms, page=page)
        return success(JobsCancelled(cancelled=swept.done, **_sweep(head, swept)))

    @app.route("POST /v1/groups/{group}/retry")
    def retry(group: str) -> Response[str]:
        now_ms = app.now_ms()
        head = groups().reader.require(app.tenant(), group)
        why, page = app.describe_request("retried", now_ms), _page()
        asked = app.read_action(GroupRestart, MAX_RETRY_BYTES)
        chosen = _chosen(head, asked.indices)
        limits.require(app.tenant())
        with conflicts():
            swept = groups().retry(
                head, why, now_ms, page=page, chosen=chosen, same_version=asked.same_version
            )
        limits.note(app.tenant(), swept.done - 1)
        return success(JobsRetried(retried=swept.done, **_sweep(head, swept)))

    def _page() -> int | None:
        start = page_start(app.parameters(MembersQuery), _is_number)
        return None if start is None else int(start)

    def _sweep(head: Head, swept: "Swept") -> dict[str, Any]:
        following = None if swept.following is None else str(swept.following)
        return {
            "examined": swept.examined,
            "refused": tuple(_left_out(head, *each) for each in swept.refused.items()),
            "next": next_cursor(app.parameters(MembersQuery), following),
        }


def _chosen(head: Head, indices: str | None) -> list[int] | None:
    """The numbers of the members that a request names; None for all. Raises Invalid."""
    if indices is None or head.group is None:
        return None
    try:
        return parse_ranges(indices, head.group.members, head.group.array)
    except NotAnIndex as problem:
        raise wrong("indices", str(problem)) from None


def _left_out(head: Head, job_id: str, detail: str) -> LeftOut:
    group = head.group
    if group is None:
        raise ValueError(f"job {head.job_id} has no members")
    number = group.number_of(job_id)
    begun = number < group.begun
    return LeftOut(id=job_id if begun else None, index=group.index_of(number), detail=detail)


def _ranges(counted: "CountedMembers", indices: "Indices | None") -> dict[State, str]:
    """The indices of members by state, in the order of the states."""
    numbers = counted.numbers
    return {state: as_ranges(numbers[state], indices) for state in State if state in numbers}


def _is_number(text: str) -> bool:
    """Whether a cursor holds the number of a member or of a page."""
    return re.fullmatch(r"[0-9]{1,5}", text) is not None
