"""Answers of the API that show what goes on: the summary."""

from collections.abc import Mapping
from typing import Literal

from joblane.contract.access import AnyRole, Scope
from joblane.contract.models import View
from joblane.deployment.limits import Limit
from joblane.job.lifecycle import State


class Caller(View):
    """The caller, as the API sees it."""

    kind: Literal["person", "machine"]
    """`person` or `machine`."""
    name: str
    """Name of the user or machine."""
    tenant: str | None
    """Its tenant; null for the role platform."""
    role: AnyRole | None
    """Its role; null if the issuer gives scopes and no role."""
    scopes: tuple[Scope, ...]
    """What it may do: the scopes of its token that its role has, too."""


class JobCounts(View):
    """The jobs of the caller's tenant by state, counted from changes of jobs."""

    counted_at: str
    """When they were counted: after the last change that is in them."""
    by_state: Mapping[State, int]
    """Number of jobs in each state that has one."""


class LimitView(View):
    """A limit of the caller's tenant."""

    limit: Limit
    """Its key in joblane.toml."""
    allowed: int
    """Its value."""
    current: int | None
    """What the tenant uses of it, some seconds old; null if that is not counted."""


class AgentCounts(View):
    """The agents that serve a queue which the caller may use; all for the role platform."""

    alive: int
    """Agents that hold the lease on their jobs."""
    slots: int
    """Their slots."""
    running: int
    """Jobs that run on them, of all tenants."""
    free: int
    """Free slots of agents that take jobs: neither cordoned nor draining, and without trouble."""
    troubled: int
    """Those of them that report trouble."""
    cordoned: int
    """Those of them that are cordoned or draining."""
    more: bool
    """Whether there may be more: at most 400 agents are read."""


class LinkView(View):
    """A link to another system, from joblane.toml."""

    name: str
    """Its name."""
    template: str
    """A URL with placeholders such as `{job_id}`."""


class PriceView(View):
    """What a slot of a queue costs, from the prices of instances in joblane.toml."""

    usd_per_slot_hour_min: float
    """US dollars for a slot and hour, on the cheapest instance that serves the queue."""
    usd_per_slot_hour_max: float
    """The same on the most expensive one."""


class Summary(View):
    """The caller, and what goes on in its part of the deployment."""

    caller: Caller
    """Who asks."""
    now: str
    """The time of the API."""
    jobs: JobCounts | None
    """Jobs of the caller's tenant; null for the role platform, and before anything was counted."""
    limits: tuple[LimitView, ...]
    """Limits of the caller's tenant; empty for the role platform."""
    agents: AgentCounts
    """Agents, as of their last heartbeats."""
    links: tuple[LinkView, ...]
    """Links to other systems."""
    prices: Mapping[str, PriceView]
    """What a slot costs, by queue: of those queues that the caller may use and that have prices."""
    version: str
    """Version of the deployment."""
    deployment: str
    """Name of the deployment."""
