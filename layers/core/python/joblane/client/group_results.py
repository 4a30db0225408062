"""What became of each member of a group, with its result, read by pages.

A page has results of up to 1,024 bytes; of a longer one the job is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar, cast

from joblane.client.answers import GroupPage, JobJson, MemberJson, job_json, member_ended
from joblane.client.calls import Call, Item, Stream, get
from joblane.client.errors import JobFailedError, JoblaneError, NotFoundError, ResultError
from joblane.client.log_calls import job_path
from joblane.client.models import Job, Member
from joblane.handler.job_type import JobType
from joblane.state.lifecycle import State

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class MemberResult(Generic[R]):
    """What became of one member of a group."""

    member: Member
    """The member, as its group's page has it."""
    error: JoblaneError | None
    """Why there is no result: `JobFailedError` if it ended in another state than completed,
    `ResultError` if it has not ended, or if the result is not what the handler declares,
    `NotFoundError` if it was deleted. None if it completed."""
    _result: R | None

    @property
    def index(self) -> int:
        """Its index in an array; in a broadcast its number in the order of the agents' names."""
        return self.member.index

    def result(self) -> R:
        """Return the result of a handler's job, and of any other its JSON. Raises `error`."""
        if self.error is not None:
            raise self.error
        return cast("R", self._result)


def read_results(
    read: Callable[..., Call[GroupPage]],
    group_id: str,
    handler: JobType[Any, Any] | None,
    indices: str | None,
) -> Stream[MemberResult[Any]]:
    """Yield what became of each member, in their order; `read` reads the page at a `cursor`."""
    cursor: str | None = None
    while True:
        page = yield from read(group_id, cursor=cursor, indices=indices, counts=False)
        for member in page["entries"]:
            yield Item((yield from member_result(page["group"], member, handler)))
        cursor = page.get("next")
        if not cursor:
            return


def member_result(
    group: JobJson, member: MemberJson, handler: JobType[Any, Any] | None
) -> Call[MemberResult[Any]]:
    """What became of a member; reads its job if its result is not here."""
    shown, result, error = Member(member), member.get("result"), _error(group, member)
    if error is not None:
        return MemberResult(shown, error, None)
    try:
        if member.get("result_size") is not None:
            result = job_json((yield from get(job_path(str(member["id"]))))).get("result")
        if handler is not None:
            result = load_result(handler, result, f"job {member['id']}")
    except (NotFoundError, ResultError) as failed:
        return MemberResult(shown, failed, None)
    return MemberResult(shown, None, result)


def job_of_member(group: JobJson, member: MemberJson) -> JobJson:
    """The job of a member, of what its group's page has: its timeline and usage are missing."""
    known = {name: value for name, value in group.items() if name not in _OF_GROUP}
    return cast("JobJson", {**known, **member, "group": group["id"]})


_OF_GROUP = frozenset({"array", "members", "timeline", "created_at", "next_at", "submitted_by"})
"""Fields of a group that say nothing of a member."""


def load_result(handler: JobType[Any, R], result: object, whose: str) -> R:
    """A result as the model that a handler declares. Raises `ResultError`."""
    from pydantic import ValidationError  # most commands need no models

    if not handler.has_result:
        return cast("R", None)
    try:
        return handler.load_result(result)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(["result", *map(str, found["loc"])])
        raise ResultError(
            f"the result of {whose} is not what {handler.name} declares here: "
            f"{where}: {found['msg']}"
        ) from error


def _error(group: JobJson, member: MemberJson) -> JoblaneError | None:
    """Why a member has no result; None if it is completed."""
    state, reason = member["state"], member.get("reason") or "no reason given"
    if state == State.COMPLETED:
        return None
    name = f"member {member['index']} of group {group['id']}"
    if state is None:
        return NotFoundError(f"{name}: {reason}", status=HTTPStatus.NOT_FOUND)
    said = f"{name} is {state}: {reason}"
    if not member_ended(member):
        return ResultError(said)
    return JobFailedError(said, job=Job(cast("Mapping[str, Any]", job_of_member(group, member))))
