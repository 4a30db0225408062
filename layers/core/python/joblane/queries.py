"""What the API takes in query strings and headers: one model a route or kind of route.

The functions read requests with these models and docs/openapi.json is written from them. They
are built when they are first used, so that a cold start pays for none that it does not use.
"""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from joblane.audit import Action
from joblane.lifecycle import State
from joblane.model import LOG_PAGE_MAX, Moment
from joblane.names import Name

PAGE_DEFAULT = 10
PAGE_MAX = 100
LOG_PAGE_DEFAULT = 100


def _whole(value: object) -> object:
    """Take digits for a number: pydantic would also take `1_0`, ` 1` and digits of any script."""
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
"""A cursor, as `joblane.cursors` writes it."""


class Query(BaseModel):
    """Parameters of a request; what a model does not have is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoQuery(Query):
    """A route without parameters."""


class PageQuery(Query):
    """Which part of a list is wanted."""

    limit: Annotated[Whole, Field(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    """Most entries to answer."""
    next: Place | None = None
    """The `next` of the page before; good for the same filters only."""

    @property
    def bound(self) -> str:
        """What a cursor of this list is bound to: all that was asked for but the page."""
        return f"{type(self).__name__} {self.model_dump_json(exclude={'limit', 'next'})}"


class ListJobs(PageQuery):
    """Which jobs to list; all filters must hold."""

    state: State | None = None
    """Jobs in this state."""
    type: TypeName | None = None
    """Jobs of this type."""
    queue: Name | None = None
    """Jobs of this queue."""
    label: Annotated[
        str | None, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,63}=[a-zA-Z0-9_.-]{0,255}$")
    ] = None
    """Jobs with this label, written `key=value`."""
    since: Moment | None = None
    """Jobs submitted at or after this moment."""
    until: Moment | None = None
    """Jobs submitted before this moment."""
    hidden: Truth = False
    """Whether to list hidden jobs too."""


class AuditQuery(PageQuery):
    """Which entries of the audit trail to list; all filters must hold."""

    action: Action | None = None
    """Entries of this action."""
    since: Moment | None = None
    """Entries of this moment and later ones."""
    until: Moment | None = None
    """Entries of before this moment."""


class LogQuery(Query):
    """Which part of a job's output is wanted."""

    limit: Annotated[Whole, Field(ge=1, le=LOG_PAGE_MAX)] | None = None
    """Most records to answer: 100 when not given, 1000 in a stream of events."""
    next: Place | None = None
    """The `next` of the page before."""


class WorkQuery(PageQuery):
    """Which jobs to do something to, a page at a time."""

    limit: Annotated[Whole, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX
    """Most jobs to look at."""
    type: TypeName | None = None
    """Jobs of this type; commands and every type when not given."""
