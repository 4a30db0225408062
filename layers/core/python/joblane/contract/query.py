"""Query parameters of any route: none, a page of a list, and how each is read.

They are built when they are first used, so that a cold start pays for none that it does not use.
"""

import re
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

PAGE_DEFAULT = 10
PAGE_MAX = 100
_DIGITS = 9
"""Digits of a number that is read; Python refuses some thousands with an error of its own."""


def up_to(most: int, *, least: int = 1) -> BeforeValidator:
    """Accept a whole number from `least` to `most`, of ASCII digits only.

    pydantic would accept `1_0`, ` 1` and digits of any script.
    """

    def check(value: object) -> object:
        if not isinstance(value, str):
            return value
        if not re.fullmatch(r"-?[0-9]+", value, re.ASCII):
            raise ValueError(f"must be a whole number between {least} and {most}")
        if len(value) > _DIGITS or not least <= int(value) <= most:
            raise ValueError(f"must be between {least} and {most}")
        return value

    return BeforeValidator(check)


def _truth(value: object) -> object:
    if isinstance(value, str) and value not in {"true", "false"}:
        raise ValueError("should be true or false")
    return value


def _each(value: object) -> object:
    """Split a repeated parameter, whose values API Gateway joins with commas."""
    return value.split(",") if isinstance(value, str) else value


PageSize = Annotated[int, Field(ge=1, le=PAGE_MAX), up_to(PAGE_MAX)]
"""The check of the text comes last: pydantic has no keyword of JSON Schema for a limit after it."""
Truth = Annotated[bool, BeforeValidator(_truth)]
Each = BeforeValidator(_each)
"""For a parameter that may be repeated; none of its values may contain a comma."""
Place = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,400}$")]
"""A cursor, as `joblane.contract.cursors` writes it."""


class Query(BaseModel):
    """Parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoQuery(Query):
    """A route without parameters."""


class PageQuery(Query):
    """Which page of a list to answer."""

    unbound: ClassVar[frozenset[str]] = frozenset()
    """Parameters that are no filters: they may differ from page to page."""

    limit: PageSize = PAGE_DEFAULT
    """Maximum number of entries."""
    next: Place | None = None
    """The `next` of the previous page; valid with the same filters only."""

    @property
    def bound(self) -> str:
        """What a cursor of this list is bound to: the filters."""
        exclude = {"limit", "next", *self.unbound}
        return f"{type(self).__name__} {self.model_dump_json(exclude=exclude)}"


class MembersQuery(Query):
    """Which members of a group to work on next."""

    next: Place | None = None
    """The `next` of the previous answer."""

    @property
    def bound(self) -> str:
        """What a cursor of this list is bound to."""
        return type(self).__name__
