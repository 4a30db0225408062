"""Why a job waits, runs on or has ended, as the API answers it."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from joblane.contract.models import View
from joblane.contract.query import Query, up_to
from joblane.group.array import MOST_INDEX
from joblane.state.lifecycle import State
from joblane.why.reason import Code, Reason


class WhyQuery(Query):
    """Which member of a group to explain."""

    index: Annotated[int, Field(ge=0, le=MOST_INDEX), up_to(MOST_INDEX, least=0)] | None = None
    """Of a group: the index of a member, which need not have begun; without it the group itself is
    explained."""


class ReasonView(View):
    """One reason."""

    code: Code
    """Its kind, which programs may depend on; docs/reference/why.md lists all."""
    text: str
    """The same as a sentence; times in it are RFC 3339 in UTC."""
    facts: Mapping[str, str | int | float | bool | tuple[str, ...] | None]
    """The values in the sentence and some more, named as docs/reference/why.md lists them. Names
    of times end in `_at`, those of seconds in `_s`."""
    commands: tuple[str, ...]
    """Commands that show more or change it; empty if there is nothing to do. Some need a role that
    the caller may not have."""


def reason_view(reason: Reason) -> ReasonView:
    """A reason as it is answered."""
    facts = {
        name: tuple(fact) if isinstance(fact, list) else fact for name, fact in reason.facts.items()
    }
    return ReasonView(code=reason.code, text=reason.text, facts=facts, commands=reason.commands)


class Why(View):
    """Why a job is where it is."""

    id: str | None
    """The job's ULID; null for a member of a group that has not begun."""
    group: str | None
    """Of a member of a group the id of that; null for any other job."""
    index: int | None
    """Of a member of a group its index there; null for any other job."""
    state: State
    """Its state."""
    at: str
    """When this was found out; figures of agents and lanes are older, as their facts say."""
    summary: str
    """The state, since when, and the first reason: one sentence."""
    reasons: tuple[ReasonView, ...]
    """At least one; the one that decides comes first."""
