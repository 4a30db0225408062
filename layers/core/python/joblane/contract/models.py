"""Base classes of the bodies of requests and answers.

They are built when they are first used, so that a cold start pays for none that it does not use.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """Body of a request: unknown fields are refused, and 5 is not "5"."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class LongBody(Body):
    """A body that is too long for the audit trail."""

    def for_trail(self) -> Mapping[str, object]:
        """What the trail says of it instead of its fields."""
        raise NotImplementedError


class View(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Page(View):
    """A page of a list, which has `entries`."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""


class OnlyPage(Page):
    """The only page of a list."""

    next: None
    """Cursor of the next page; null, because there is none."""
