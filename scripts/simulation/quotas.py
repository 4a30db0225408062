"""Quotas of AWS next to what a run asked for: a table for docs/SCALE.md.

Quotas are AWS's defaults for an account and Region, as of 2026-11-22.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.costs.usage import CALL_S as SECONDS_OF
from scripts.simulation.lane import IN_FLIGHT
from scripts.simulation.result import Result
from scripts.simulation.scaling import CALL_AGENT_S, CALL_S
from scripts.simulation.world import PARAMETERS_PER_S, PARTITION_UNITS, TABLE_UNITS

SCALER_TIMEOUT_S = 29
"""Longest call of a function (infra/function.py)."""

CONCURRENCY, NEW_CONCURRENCY = 1000, 10
"""Calls of Lambda at once, in an account and in a new one."""

STREAMS_PER_S, EVENTS_PER_S, SCHEDULES_PER_S = 50, 5000, 1000

FLEET_MOST = 5000
"""The largest `max_size` of joblane.toml."""


@dataclass(frozen=True)
class Use:
    """What a run asked for of one quota."""

    mean: float
    """Over the time in which jobs were submitted."""
    most: float
    agents: bool = False
    """Whether it grows with the agents; if not, with the jobs."""
    effect: str = ""
    """What the run shows of it."""
    at: str = ""
    """The load at which the mean is the quota, where that is no multiple of this run's."""


@dataclass(frozen=True)
class Quota:
    """One row."""

    name: str
    limit: float
    use: Callable[[Result], Use] | None
    """None: nothing that jobs or agents do counts to it."""
    design: str
    """What the design does where it is met."""


def _rate(name: str, *, agents: bool = False, at: str = "") -> Callable[[Result], Use]:
    def use(result: Result) -> Use:
        demand = result.demand[name]
        waited = f"longest wait {demand['waited_s']:.0f} s" if demand["waited_s"] >= 1 else ""
        return Use(demand["total"] / result.submitted_s, demand["most"], agents, waited, at)

    return use


def _in_flight(result: Result) -> Use:
    return Use(result.running_mean, result.in_flight_max)


def _submissions(result: Result) -> Use:
    demand, call_s = result.demand["by_tenant"], SECONDS_OF["submission"]
    return Use(demand["total"] / result.submitted_s * call_s, demand["most"] * call_s)


def _scaler(result: Result) -> Use:
    seconds = CALL_S + CALL_AGENT_S * result.instances_during
    refused = f"{result.dropped:,} kicks were given up" if result.dropped else ""
    at = f"{(SCALER_TIMEOUT_S - CALL_S) / CALL_AGENT_S:,.0f} agents"
    return Use(seconds, result.scaler_longest_s, agents=True, effect=refused, at=at)


def _group(result: Result) -> Use:
    return Use(result.instances_during / 2, result.instances_max / 2, agents=True)


QUOTAS = (
    Quota(
        "EC2 RunInstances: 1,000 instances, then 2 a second; here 100",
        100,
        _rate("launched", at="growth by more than 1,000 at once"),
        "Auto Scaling tries again, the scaler asks for no more, and `joblane why` says so",
    ),
    Quota(
        "DynamoDB, a new table on demand: 4,000 write units a second; table jobs",
        TABLE_UNITS,
        _rate("table"),
        "throttled calls are repeated; DynamoDB raises the limit of a table with its traffic",
    ),
    Quota(
        "DynamoDB, one partition: 1,000 write units a second; index by_tenant of one tenant",
        PARTITION_UNITS,
        _rate("by_tenant"),
        "the submission waits; several tenants share out the load",
    ),
    Quota(
        "DynamoDB, a new table on demand: 4,000 write units a second; heartbeats",
        TABLE_UNITS,
        _rate("agents_table", agents=True),
        "16 partitions; a heartbeat with more than some 30 jobs takes two units",
    ),
    Quota(
        "SQS, messages in flight of one queue: 120,000; lane default",
        IN_FLIGHT,
        _in_flight,
        "receivers get nothing, without an error; messages in a backoff count; each lane of each "
        "queue has this quota",
    ),
    Quota(
        "SSM GetParameter: 40 a second; agents that start",
        PARAMETERS_PER_S,
        _rate("parameters", at="more starts in a second"),
        "an agent that cannot read its descriptor ends, and systemd starts it again",
    ),
    Quota(
        "SSM GetParameter: 40 a second; if each job has one `ssm:` secret",
        PARAMETERS_PER_S,
        _rate("starts"),
        "the attempt waits in its slot; use `secretsmanager:` (decision 0512), or raise it",
    ),
    Quota(
        "Lambda, calls at once: 1,000; submissions of 0.03 s (assumed)",
        CONCURRENCY,
        _submissions,
        "batches of submissions; calls are reserved for what must run (decision 0956)",
    ),
    Quota(
        "Lambda, calls at once in a new account: 10; submissions",
        NEW_CONCURRENCY,
        _submissions,
        "submission answers 503 and callers repeat; ask for more",
    ),
    Quota(
        "Joblane's own: 29 s of a call of the scaler",
        SCALER_TIMEOUT_S,
        _scaler,
        "the fleets stay as they are, and alarms say so; two deployments",
    ),
    Quota(
        "Joblane's own: `max_size` is 5,000 instances",
        FLEET_MOST,
        _group,
        "the next fleet of the queue takes what is above it",
    ),
    Quota(
        "CloudWatch Logs CreateLogStream: 50 a second",
        STREAMS_PER_S,
        None,
        "no stream for a job or an attempt: output is in DynamoDB and S3 (decision 1201)",
    ),
    Quota(
        "CloudWatch Logs GetLogEvents: 10 to 25 a second, PutLogEvents: 5,000",
        EVENTS_PER_S,
        None,
        "no output of jobs is there, and no reader of it",
    ),
    Quota(
        "EventBridge Scheduler: 1,000 a second",
        SCHEDULES_PER_S,
        None,
        "scheduled jobs are rows of the table jobs",
    ),
)

HEAD = ("quota", "mean", "most", "met at", "then")


def quota_table(result: Result) -> str:
    """Make the table as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(quota, result) for quota in QUOTAS)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(quota: Quota, result: Result) -> tuple[str, ...]:
    if quota.use is None:
        return quota.name, "0", "0", "-", quota.design
    use = quota.use(result)
    return quota.name, _number(use.mean), _number(use.most), _met(quota, use, result), quota.design


def _met(quota: Quota, use: Use, result: Result) -> str:
    """At which load a quota is met, and whether that is this run's."""
    said = list(_said(quota, use, result))
    if use.effect:
        said.append(use.effect)
    return "; ".join(said)


def _said(quota: Quota, use: Use, result: Result) -> Iterator[str]:
    part = quota.limit / use.mean
    if part <= 1:
        yield f"**met**, {1 / part:.1f} times"
    elif use.most >= quota.limit:
        yield "**met** for moments"
    if use.at:
        yield use.at
    elif use.agents:
        yield f"{result.instances_during * part:,.0f} agents"
    else:
        yield f"{part * result.jobs / result.submitted_s * 3600 / 1e6:,.1f} million jobs an hour"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
