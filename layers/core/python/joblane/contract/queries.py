"""Query parameters of the routes: one model a route or kind of route.

The functions read requests with these models and contract/openapi.json is written from them. They
are built when they are first used, so that a cold start pays for none that it does not use.
"""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from joblane.audit.records import Action
from joblane.deployment.names import Name
from joblane.job.head import Head
from joblane.job.lifecycle import State
from joblane.job.spec import LOG_PAGE_MAX, JobName, Moment

PAGE_DEFAULT = 10
PAGE_MAX = 100
LOG_PAGE_DEFAULT = 100


def _whole(value: object) -> object:
    """Accept ASCII digits only: pydantic would accept `1_0`, ` 1` and digits of any script."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        raise ValueError("should be a whole number")
    return value


def _truth(value: object) -> object:
    if isinstance(value, str) and value not in {"true", "false"}:
        raise ValueError("should be true or false")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Truth = Annotated[bool, BeforeValidator(_truth)]
TypeName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$")]
Place = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,400}$")]
"""A cursor, as `joblane.contract.cursors` writes it."""


class Query(BaseModel):
    """Parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoQuery(Query):
    """A route without parameters."""


class PageQuery(Query):
    """Which page of a list to answer."""

    limit: Annotated[Whole, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    """Maximum number of entries."""
    next: Place | None = None
    """The `next` of the previous page; valid with the same filters only."""

    @property
    def bound(self) -> str:
        """What a cursor of this list is bound to: the filters."""
        return f"{type(self).__name__} {self.model_dump_json(exclude={'limit', 'next'})}"


class ListJobs(PageQuery):
    """Which jobs to list; all filters must match."""

    state: State | None = None
    """Jobs in this state."""
    type: TypeName | None = None
    """Jobs of this type."""
    name: JobName | None = None
    """Jobs with exactly this name."""
    queue: Name | None = None
    """Jobs of this queue."""
    label: Annotated[
        str | None, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,63}=[a-zA-Z0-9_.-]{0,255}$")
    ] = None
    """Jobs with this label, written `key=value`."""
    since: Moment | None = None
    """Jobs submitted at or after this time."""
    until: Moment | None = None
    """Jobs submitted before this time."""
    hidden: Truth = False
    """Whether to include hidden jobs."""

    @property
    def narrows(self) -> bool:
        """Whether it filters by something other than state and time."""
        return not self.type is self.name is self.queue is self.label is None

    def matches(self, head: Head) -> bool:
        """Whether a job passes all filters but those of time."""
        key, _, value = (self.label or "").partition("=")
        return (
            (self.hidden or not head.hidden)
            and self.state in {None, head.state}
            and self.type in {None, head.spec.type}
            and self.name in {None, head.spec.name}
            and self.queue in {None, head.queue}
            and (self.label is None or head.spec.labels.get(key) == value)
        )


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

    limit: Annotated[Whole, Field(ge=1, le=LOG_PAGE_MAX)] | None = None
    """Maximum number of records: 100 by default, 1000 in a stream of events."""
    next: Place | None = None
    """The `next` of the previous page."""


class WorkQuery(PageQuery):
    """Which jobs a bulk operation changes, a page at a time."""

    limit: Annotated[Whole, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX
    """Maximum number of jobs to examine."""
    type: TypeName | None = None
    """Jobs of this type; by default commands and all types."""
