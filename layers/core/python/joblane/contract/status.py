"""Answers of the API that show what goes on: the summary, the activity of a queue, fleets."""

from collections.abc import Mapping
from typing import Literal

from joblane.contract.access import AnyRole, Scope
from joblane.contract.models import OnlyPage, View
from joblane.contract.query import Query
from joblane.contract.why import ReasonView
from joblane.deployment.limits import Limit
from joblane.deployment.names import Architecture
from joblane.formats.times import rfc3339
from joblane.queue.activity import Tally
from joblane.queue.rollup import Chart, Span
from joblane.state.lifecycle import State


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
    """Number of jobs in each state that has one. Members of groups do not count, as in lists."""


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
    """Agents of these that are cordoned or draining."""
    more: bool
    """Whether there may be more: at most 400 agents are read."""
    lacks: Mapping[str, tuple[str, ...]]
    """By queue that the caller may use: limits by their names, and `egress`, that none of its live
    agents can give a job. Without queues of which nothing is lacking, or which no agent serves;
    empty if not all agents were read."""


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


class ActivityQuery(Query):
    """Over which time to show activity."""

    span: Span = "1h"
    """`1h`: an hour by minutes. `24h`: a day by five minutes."""


class ActivityPoint(View):
    """What happened to the jobs of a queue within one step."""

    at: str
    """Beginning of the step."""
    submitted: int
    """New jobs."""
    started: int
    """Attempts that started; an attempt that another agent took over counts once."""
    completed: int
    """Jobs that ended completed."""
    failed: int
    """Jobs that ended failed or dead."""
    retried: int
    """Failed attempts that are followed by another one."""
    mean_wait_s: float | None
    """Mean time from ready to started; null if no job started."""


class QueueActivity(View):
    """Activity of a queue over time: of the caller's tenant, or of all for the role platform."""

    queue: str
    """The queue's name."""
    span: Span
    """`1h` or `24h`."""
    step_s: int
    """Seconds from one point to the next: 60 for an hour, 300 for a day."""
    points: tuple[ActivityPoint, ...]
    """60 points for an hour, 288 for a day, oldest first; the last one is not over."""
    complete_until: str
    """Points that begin at this time or later are not complete yet. Those before are, unless the
    projector is late."""


def queue_activity(
    queue: str, span: Span, chart: Chart, minutes: Mapping[int, Tally], now_ms: int
) -> QueueActivity:
    """Make the answer of the counts by minute."""
    return QueueActivity(
        queue=queue,
        span=span,
        step_s=chart.step * 60,
        points=tuple(_point(minute, tally) for minute, tally in chart.tallies(minutes)),
        complete_until=rfc3339(chart.complete_ms(now_ms)),
    )


def _point(minute: int, tally: Tally) -> ActivityPoint:
    return ActivityPoint(
        at=rfc3339(minute * 60_000),
        submitted=tally.submitted,
        started=tally.started,
        completed=tally.completed,
        failed=tally.failed,
        retried=tally.retried,
        mean_wait_s=round(tally.waited_ms / tally.started / 1000, 3) if tally.started else None,
    )


class DeclaredFleet(View):
    """A fleet as joblane.toml declares it."""

    name: str
    """The fleet's name."""
    queues: tuple[str, ...]
    """Queues that its agents serve."""
    instance_types: tuple[str, ...]
    """EC2 instance types, in order of preference."""
    architecture: Architecture
    """CPU architecture of its instances."""
    ami: str | None
    """Image of its instances: an id or the name of an SSM parameter; null: AWS's newest."""
    packages: tuple[str, ...]
    """Packages that its instances install when they boot."""
    setup: str | None
    """Program that then runs, a file beside joblane.toml; null: none."""
    min_size: int
    """Smallest number of instances."""
    max_size: int
    """Largest number of instances."""
    price_per_hour: Mapping[str, float]
    """US dollars for an hour of an instance, by type; empty if joblane.toml has no prices."""


class ScalingActivityView(View):
    """What the Auto Scaling group of a fleet did, or tried."""

    at: str
    """When it began."""
    status: str
    """`Successful`, `Failed`, `Cancelled`, or a status on the way there, as Auto Scaling has it."""
    description: str
    """What it is."""
    cause: str | None
    """Why; of an activity that failed, the error."""


class FleetDecision(View):
    """What the scaler last decided for a fleet. It decides every minute."""

    at: str
    """When it was written. Figures are up to five minutes old; changes of state are written at
    once."""
    wanted: int
    """Slots wanted: jobs that run, and `backlog`."""
    backlog: int
    """Messages that could start and that this fleet is to run."""
    max: int
    """Largest size of the group, which somebody may have set below `max_size`."""
    alive: int
    """Agents that take jobs."""
    busy: int
    """Instances whose agents have jobs."""
    booting: int
    """Instances whose agent is expected."""
    raised_at: str | None
    """When the scaler last asked for more instances; null: never."""
    reasons: tuple[ReasonView, ...]
    """Why the fleet has no more instances than it has, with codes of docs/reference/why.md; empty
    if nothing keeps it from having them."""


class FleetView(DeclaredFleet):
    """A fleet with the state of its Auto Scaling group."""

    desired: int | None
    """Number of instances that the group wants; null if the group cannot be read."""
    in_service: int | None
    """Number of instances in service."""
    activities: tuple[ScalingActivityView, ...]
    """The newest activities of the group, newest first, 20 at most."""
    note: str | None
    """What cannot be shown, and why; null if nothing is missing."""
    decision: FleetDecision | None
    """What the scaler last decided; null if it never has, or if it cannot be read (see `note`)."""


class FleetPage(OnlyPage):
    """The fleets of the deployment."""

    entries: tuple[FleetView, ...]
    """The entries of this page."""
