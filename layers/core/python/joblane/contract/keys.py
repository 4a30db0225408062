"""Keys in the API: how many jobs run at once under a key, which ones, and which wait for a slot."""

from typing import Annotated

from pydantic import Field

from joblane.contract.models import Page, View
from joblane.contract.query import PageQuery
from joblane.key.policy import StalePolicy, WhenFull
from joblane.state.lifecycle import State

SHOWN_QUEUED = 100
"""Waiting jobs that the answer for a key lists; a key may have 1,000."""


class KeyQuery(PageQuery):
    """Which keys of a type to list."""

    segments: Annotated[str, Field(max_length=700)] | None = None
    """Only the key with these segments: a JSON array, such as `["customer","acme"]`. Longer
    ones than 700 characters do not fit into every URL; ask for the key by its digits."""


class KeyView(View):
    """A key of the caller's tenant that jobs have or wait for."""

    type: str
    """The job type; `command` for keys that submissions write out, `policy.NAME` for those of a
    policy of joblane.toml."""
    id: str
    """32 hexadecimal digits, which stand for the segments."""
    segments: tuple[str | int | float | bool, ...]
    """The strings, numbers and booleans that name the key."""
    active: int
    """Jobs that have a slot."""
    queued: int
    """Jobs that wait for a slot."""
    max_active: int
    """Maximum number of jobs with a slot, as the latest job of the key said; the same for the next
    fields."""
    max_queued: int
    """Maximum number of jobs that wait for a slot."""
    when_full: WhenFull
    """What happens to another job."""
    stale_policy: StalePolicy
    """What happens to a job whose agent was lost."""


class KeyPage(Page):
    """A page of keys."""

    entries: tuple[KeyView, ...]
    """The entries of this page; it may have fewer than `limit` although another one follows."""


class KeyHolder(View):
    """A job that has a slot of a key."""

    id: str
    """Id of the job."""
    slot: int
    """Number of its slot, which rises with each slot that the key gives."""
    state: State | None
    """Its state. A job that has ended, or is deleted (null), frees its slot within moments."""
    since_at: str | None
    """Since when it has the slot; null if it is deleted."""
    reason: str
    """What it does or waits for: a sentence."""
    agent: str | None
    """Agent of its last attempt."""
    heartbeat_at: str | None
    """Latest heartbeat of that agent, if the job runs; null if not, or if the agent is gone."""
    lease_ends_at: str | None
    """When the lease ends that this heartbeat gives: after that another agent takes the job over,
    or it ends as stale (`stale_policy`)."""


class KeyWaiter(View):
    """A job that waits for a slot of a key."""

    id: str
    """Id of the job."""
    position: int
    """1 for the job that gets the next slot."""
    state: State | None
    """Its state. A job that has ended, or is deleted (null), leaves the queue within moments."""
    since_at: str | None
    """Since when it waits; null if it is deleted."""
    reason: str
    """What it waits for: a sentence."""


class KeyDetail(KeyView):
    """A key with its jobs."""

    queued_total: int
    """Jobs that had to wait so far. The counts begin again a day after the last job of the key."""
    replaced: int
    """Jobs that newer ones have replaced."""
    stale: int
    """Jobs that ended as stale."""
    holders: tuple[KeyHolder, ...]
    """The jobs that have a slot, in the order in which they got it."""
    queue: tuple[KeyWaiter, ...]
    """The jobs that wait for a slot, the next one first; at most 100 of them."""


class Cleared(View):
    """What clearing the queue of a key did."""

    cancelled: tuple[str, ...]
    """Ids of the jobs that were cancelled."""
    left: int
    """Jobs that still wait; send the request again to cancel these too."""
