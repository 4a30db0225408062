"""Query parameters of jobs, logs and the audit trail: one model a route or kind of route.

The functions read requests with these models and contract/openapi.json is written from them. They
are built when they are first used, so that a cold start pays for none that it does not use.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from joblane.audit.records import Action
from joblane.contract.query import PAGE_MAX, Each, PageQuery, PageSize, Place, Query, Truth, up_to
from joblane.deployment.names import Name
from joblane.formats.levels import Level
from joblane.job.fields import JobName, Moment, TypeName
from joblane.job.head import Head
from joblane.job.spec import LOG_PAGE_MAX
from joblane.state.lifecycle import State

LOG_PAGE_DEFAULT = 100

LogPageSize = Annotated[int, Field(ge=1, le=LOG_PAGE_MAX), up_to(LOG_PAGE_MAX)]
LabelFilter = Annotated[
    str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,63}=[a-zA-Z0-9_.-]{0,255}$")
]


class JobFilters(PageQuery):
    """Which jobs to select, in whatever state; all filters must match."""

    type: TypeName | None = None
    """Jobs of this type."""
    name: JobName | None = None
    """Jobs with exactly this name."""
    queue: Name | None = None
    """Jobs of this queue."""
    label: Annotated[tuple[LabelFilter, ...], Each, Field(max_length=20)] = ()
    """Jobs with all of these labels, each written `key=value`; can be repeated."""
    since: Moment | None = None
    """Jobs submitted at or after this time."""
    until: Moment | None = None
    """Jobs submitted before this time."""
    hidden: Truth = False
    """Whether to include hidden jobs."""

    @property
    def narrows(self) -> bool:
        """Whether it filters by something other than state and time."""
        return bool(self.label) or not self.type is self.name is self.queue is None

    @property
    def selects(self) -> bool:
        """Whether it has one of the filters of which a bulk operation requires one.

        `until` and `hidden` alone select nearly every job, and do not count.
        """
        return self.narrows or self.since is not None


class ListJobs(JobFilters):
    """Which jobs to list; all filters must match."""

    state: Annotated[tuple[State, ...], Each, Field(max_length=len(State))] = ()
    """Jobs in one of these states; can be repeated."""
    groups: Truth = False
    """Whether to list groups only: broadcasts, with a job for each agent of their target, and
    arrays."""

    @property
    def narrows(self) -> bool:
        """Whether it filters by something other than state and time."""
        return super().narrows or self.groups

    @property
    def selects(self) -> bool:
        """As `JobFilters.selects`; a state selects, too."""
        return super().selects or bool(self.state)

    def matches(self, head: Head) -> bool:
        """Whether a job passes all filters but those of time."""
        labels = [label.split("=") for label in self.label]
        return (
            (self.hidden or not head.hidden)
            and (not self.groups or head.spec.makes_group)
            and (not self.state or head.state in self.state)
            and self.type in {None, head.spec.type}
            and self.name in {None, head.spec.name}
            and self.queue in {None, head.queue}
            and all(head.spec.labels.get(key) == value for key, value in labels)
        )


class SelectJobs(ListJobs):
    """Which jobs a bulk operation changes; all filters must match, and one at least is required."""

    limit: PageSize = PAGE_MAX
    """Maximum number of jobs to change."""

    def within(self, states: frozenset[State]) -> "SelectJobs":
        """The same, with these states if it names none."""
        chosen = self.state or tuple(state for state in State if state in states)
        return self.model_copy(update={"state": chosen})


class AuditQuery(PageQuery):
    """Which entries of the audit trail to list; all filters must match."""

    action: Action | None = None
    """Entries of this action."""
    since: Moment | None = None
    """Entries at or after this time."""
    until: Moment | None = None
    """Entries before this time."""


class LogQuery(Query):
    """Which part of a job's output to answer."""

    limit: LogPageSize | None = None
    """Maximum number of records: 100 by default, 1000 with `tail` and in a stream of events."""
    next: Place | None = None
    """The `next` of the previous page."""
    tail: LogPageSize | None = None
    """Start with the last so many lines of all attempts, 768 KB at most; without `next`."""
    level: Level | None = None
    """Only records of this level or above: `debug`, `info`, `warning`, `error` or `critical`.
    Output without a level is left out. A page examines 6 MB of output at most, so it may have no
    entries although `more` is true; with `tail`, of the last 6 MB."""
