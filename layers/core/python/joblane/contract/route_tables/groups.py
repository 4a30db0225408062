"""Routes of groups."""

from http import HTTPStatus
from typing import Final

from joblane.contract.groups import MAX_RETRY_BYTES, GroupPage, GroupQuery, GroupRestart
from joblane.contract.query import MembersQuery
from joblane.contract.route import Route
from joblane.contract.route_kinds import sweep
from joblane.contract.views import (
    JobsCancelled,
    JobsRetried,
)

_GROUP = "/v1/groups/{group}"

GROUP_ROUTES: Final = (
    Route(
        "getGroup",
        "GET",
        _GROUP,
        ("jobs.read",),
        "Show a group and its members",
        GroupPage,
        query=GroupQuery,
    ),
    sweep(
        "cancelGroup",
        f"{_GROUP}/cancel",
        "cancel-group",
        "jobs.cancel",
        "Cancel a group: what has not begun, then its members, a page at a time",
        JobsCancelled,
        MembersQuery,
        errors=(HTTPStatus.CONFLICT,),
    ),
    sweep(
        "retryGroup",
        f"{_GROUP}/retry",
        "retry-group",
        "jobs.submit",
        "Retry the failed and dead members of a group, a page at a time",
        JobsRetried,
        MembersQuery,
        body=GroupRestart,
        largest_body=MAX_RETRY_BYTES,
        errors=(HTTPStatus.CONFLICT,),
    ),
)
