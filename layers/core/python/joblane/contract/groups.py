"""Groups in the API: a broadcast or an array with its members, and the body of a retry."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from joblane.contract.audit import Restart
from joblane.contract.job import Job
from joblane.contract.models import LongBody, Page, View
from joblane.contract.query import Each, PageQuery, Truth
from joblane.contract.route import MAX_ACTION_BYTES
from joblane.formats.text import shorten
from joblane.group.array import MOST_SELECTED
from joblane.job.fields import OutputFiles
from joblane.state.lifecycle import Outcome, State

MOST_IN_QUERY: Final = 4096
"""Longest text of the indices in a query, in characters."""

MAX_RETRY_BYTES: Final = MOST_SELECTED + MAX_ACTION_BYTES
"""Longest body of a retry of a group."""

INDICES_SHOWN: Final = 200
"""Characters of the indices that the audit trail keeps."""

GroupKind = Literal["array", "broadcast"]


class GroupQuery(PageQuery):
    """Which members of a group to show."""

    state: Annotated[tuple[State, ...], Each, Field(max_length=len(State))] = ()
    """Members in one of these states; can be repeated. A page may have fewer entries than `limit`,
    or none, although others follow: it examines 1,000 members at most."""
    indices: Annotated[str, Field(min_length=1, max_length=MOST_IN_QUERY)] | None = None
    """Members with these indices, such as `3,5-9`."""
    counts: Truth | None = None
    """Whether the first page has the `counts` of all members and their `indices` by state: by
    default it has them unless it is of `indices`. They take a read of the row of each member that
    has begun, among any hundred members of which some have not ended."""

    unbound: ClassVar[frozenset[str]] = frozenset({"counts"})

    @property
    def counted(self) -> bool:
        """Whether the members are counted for this page."""
        asked = self.indices is None if self.counts is None else self.counts
        return self.next is None and asked


class GroupRestart(Restart, LongBody):
    """Optional body of a retry of a group."""

    indices: Annotated[str, Field(min_length=1, max_length=MOST_SELECTED)] | None = None
    """Only the members with these indices, such as `3,5-9`: those that are neither failed nor dead,
    or have not begun, are among the refused. Without it all that are failed or dead."""

    def for_trail(self) -> Mapping[str, object]:
        """Its fields, of which the indices are cut."""
        told = self.model_dump(exclude={"reason"}, exclude_unset=True)
        if self.indices is not None:
            told["indices"] = shorten(self.indices, INDICES_SHOWN)
        return told


class Member(View):
    """A member of a group, and its job."""

    agent: str | None
    """Of a broadcast the name of the only agent that may run the job; of an array that of its
    present or last attempt."""
    index: int
    """Of an array its index, which it keeps for ever; of a broadcast its number in the order of the
    agents' names, from 0."""
    id: str | None
    """Id of its job; null if it has not begun."""
    state: State | None
    """State of its job. `waiting` if it has not begun yet; `skipped` or `cancelled` if it is not to
    begin any more; null if the row of its job has expired."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of its present or last attempt; 0 before the first."""
    exit_code: int | None
    """Exit code of its last attempt."""
    outcome: Outcome | None
    """How its last attempt ended."""
    result: Any
    """The result of a completed job, any JSON of up to 1,024 bytes. Of a longer one `GET
    /v1/jobs/{id}` shows it."""
    result_size: int | None
    """Bytes of a result of more than 1,024, which is not here; null for any other job."""
    output_files: OutputFiles | None
    """The files that its newest attempt with `outputs` left: how many, and which globs matched
    none."""
    started_at: str | None
    """Start of its first attempt."""
    ended_at: str | None
    """Time when it ended."""


class GroupPage(Page):
    """A group, and a page of its members."""

    group: Job
    """The job that was submitted, with the state of the group."""
    kind: GroupKind
    """`array`, or `broadcast` for a job with a target of several agents."""
    counts: dict[State, int] | None
    """How many members are in each state, those that have not begun included; members that have
    ended and whose rows have expired while the group goes on are in none. null in pages after the
    first, and where they were not asked for."""
    failed_indices: str | None
    """The indices of the members that are failed, dead, expired or stale, as ranges such as
    `1,3-5,7`; empty for none. null where `counts` is."""
    indices: dict[State, str] | None
    """The indices of the members in each state, as such ranges; those whose rows have expired may
    be in none. null where `counts` is."""
    changed: bool
    """Whether the `result` of a member is an object with `"changed": true`: of one of these
    entries, or of any hundred members that have all ended."""
    entries: tuple[Member, ...]
    """Members, in the order of their indices."""
