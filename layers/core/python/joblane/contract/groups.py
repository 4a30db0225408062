"""Groups in the API: a broadcast with its members."""

from typing import Any

from joblane.contract.job import Job
from joblane.contract.models import Page, View
from joblane.state.lifecycle import Outcome, State


class Member(View):
    """A member of a group: one agent and the job that it was to run."""

    agent: str
    """Name of the only agent that may run the job."""
    index: int
    """Its number, in the order of the agents' names; 0 for the first."""
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
    started_at: str | None
    """Start of its first attempt."""
    ended_at: str | None
    """Time when it ended."""


class GroupPage(Page):
    """A group, and a page of its members."""

    group: Job
    """The job that was submitted, with the state of the group."""
    changed: bool
    """Whether the `result` of a member is an object with `"changed": true`: of one of these
    entries, or of any hundred members that have all ended."""
    entries: tuple[Member, ...]
    """Members, in the order of their agents' names."""
