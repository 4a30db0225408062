"""Conditions in the API: the conditions that jobs wait for, and declarations of applications."""

from typing import Annotated, Literal

from pydantic import Field

from joblane.contract.models import Body, Page, View


class Declaration(Body):
    """Body of `PUT /v1/conditions/{name}`: declares an application up or down."""

    state: Literal["up", "down"]
    """`down` holds jobs back, `up` releases them."""
    reason: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """Shown as the reason of waiting jobs."""


class ConditionView(View):
    """A condition that jobs of the caller's tenant wait for."""

    name: str
    """The condition, such as `http:https://api.example.com/health`."""
    kind: str
    """The part of the name before the first colon."""
    since_at: str
    """When the tenant's longest-waiting job was blocked."""
    waiting: int
    """Number of waiting jobs of the tenant, at most a hundred."""
    more: bool
    """Whether more of its jobs wait."""
    reason: str
    """Result of the last test."""
    tests: int
    """Number of tests since the last release of a job."""
    next_test_at: str | None
    """Time of the next test; null until its execution has started."""
    policy: str
    """The policy that sets the delays between tests."""
    gives_up_at: str
    """When the longest-waiting job fails if the condition still blocks."""


class OutageView(View):
    """An application that is declared down."""

    name: str
    """The application, such as `app:billing`."""
    reason: str
    """The reason that was given, who declared it, and when."""
    until_at: str
    """When the declaration expires."""
    all_tenants: bool
    """Whether the role platform has declared it, for the jobs of all tenants."""


class ConditionPage(Page):
    """A page of conditions."""

    entries: tuple[ConditionView, ...]
    """The entries of this page."""
    down: tuple[OutageView, ...]
    """Applications that are declared down, also if no job waits for them: on the first page, at
    most a hundred of the tenant and a hundred of all tenants."""


class AppView(View):
    """The declared state of an application."""

    name: str
    """The application, such as `app:billing`."""
    state: Literal["up", "down"]
    """Whether it is declared down."""
    reason: str
    """The reason that was given."""
    until_at: str | None
    """When a declaration that it is down expires."""
