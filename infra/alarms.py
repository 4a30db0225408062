"""The alarms of a deployment, as data: what is measured, when it is an alarm, and why.

Names in braces stand for the deployment (`name`), the ids of its APIs (`api`, `iam_api`), its
state machine (`recovery_machine`), and for what the alarm is made for each of (`Each`).
`docs/RUNBOOK.md` has a page for each id.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from joblane.config.observability import Level
from joblane.deployment.metrics import (
    FAILED_JOBS,
    NAMESPACE,
    PUBLIC_REQUESTS,
    REFUSED_SCHEDULES,
)

Each = Literal[
    "deployment",
    "function",
    "queue",
    "fleet",
    "service",
    "table",
    "index",
    "notifier",
    "scaler",
    "tracer",
    "exporter",
    "iam",
]
"""What an alarm is made for each of. `service`: a queue and a fleet that serves it; `notifier`: the
deployment, if a tenant may notify; `scaler`: the deployment, if it has fleets; `tracer`: the
deployment, if it exports spans; `exporter`: the deployment, if it exports ended jobs; `iam`: the
deployment, if IAM roles may call it."""

Missing = Literal["breaching", "notBreaching"]

MINUTE, FIVE_MINUTES, HOUR = 60, 300, 3600

FAST_BURN = 14.4
"""Times the rate of errors that uses up the budget of a month: in an hour, 2 % of it."""


@dataclass(frozen=True)
class Metric:
    """One metric, over one period."""

    namespace: str
    name: str
    statistic: str
    dimensions: Mapping[str, str]
    period_s: int = FIVE_MINUTES


@dataclass(frozen=True)
class Alarm:
    """A row of the table."""

    id: str
    level: Level
    why: str
    """What it means, in a sentence."""
    metrics: Mapping[str, Metric]
    """Metrics by the names that the expression uses. Each is paid for."""
    threshold: float
    comparison: Literal[">", ">=", "<"] = ">="
    _: KW_ONLY
    each: Each = "deployment"
    of: tuple[str, ...] = ()
    """The functions, tables or indexes (`table/index`) that it is made for."""
    expression: str = ""
    """Metric math; without it the only metric."""
    periods: int = 1
    breaching: int = 1
    """How many of the last `periods` must be over the threshold."""
    missing: Missing = "notBreaching"
    """What a period without a value is."""
    notifies: bool = True
    """False for the windows of a `Burn`, which notifies in their place."""


@dataclass(frozen=True)
class Burn:
    """A composite alarm: an objective's budget is used up fast, in a short and a long window."""

    id: str
    why: str
    windows: tuple[str, str]
    """Ids of the alarms of both windows."""
    each: Each = "deployment"
    level: Level = field(default="full", init=False)


def _function(metric: str, statistic: str, period_s: int, function: str = "{function}") -> Metric:
    return Metric(
        "AWS/Lambda", metric, statistic, {"FunctionName": f"{{name}}-{function}"}, period_s
    )


def _queue(metric: str, statistic: str, period_s: int, queue: str) -> Metric:
    return Metric("AWS/SQS", metric, statistic, {"QueueName": f"{{name}}-{queue}"}, period_s)


def _api(metric: str, period_s: int, api: str = "{api}") -> Metric:
    return Metric("AWS/ApiGateway", metric, "Sum", {"ApiId": api}, period_s)


def _of_queue(metric: str, statistic: str, period_s: int) -> Metric:
    by = {"Deployment": "{name}", "Queue": "{queue}"}
    return Metric(NAMESPACE, metric, statistic, by, period_s)


def _of_fleet(metric: str, statistic: str, period_s: int = MINUTE) -> Metric:
    by = {"Deployment": "{name}", "Fleet": "{fleet}"}
    return Metric(NAMESPACE, metric, statistic, by, period_s)


def _one(
    alarm_id: str,
    level: Level,
    why: str,
    metric: Metric,
    threshold: float = 1,
    comparison: Literal[">", ">=", "<"] = ">=",
    *,
    all_of: int = 1,
    each: Each = "deployment",
    missing: Missing = "notBreaching",
) -> Alarm:
    """A row with one metric, which must be over the threshold in all of so many periods."""
    return Alarm(
        alarm_id,
        level,
        why,
        {"m": metric},
        threshold,
        comparison,
        each=each,
        periods=all_of,
        breaching=all_of,
        missing=missing,
    )


def _silent(function: str, why: str, each: Each = "deployment") -> Alarm:
    """A function is not called any more."""
    metric = _function("Invocations", "Sum", FIVE_MINUTES, function)
    return _one(f"{function}-silent", "basic", why, metric, 1, "<", each=each, missing="breaching")


def _late(function: str, minutes: int, why: str) -> Alarm:
    """A function lags behind its stream."""
    metric = _function("IteratorAge", "Maximum", MINUTE, function)
    return _one(f"{function}-late", "basic", why, metric, minutes * 60_000, ">", all_of=5)


def _letters(
    alarm_id: str, queue: str, why: str, each: Each = "deployment", all_of: int = 1
) -> Alarm:
    """Messages stay in a queue."""
    metric = _queue("ApproximateNumberOfMessagesVisible", "Maximum", FIVE_MINUTES, queue)
    return _one(alarm_id, "basic", why, metric, each=each, all_of=all_of)


def _fleet(alarm_id: str, metric: Metric, minutes: int, why: str) -> Alarm:
    """A figure of a fleet is not 0 for so many minutes."""
    return _one(alarm_id, "full", why, metric, each="fleet", all_of=minutes)


MUST_RUN = ("requeue", "dead_letter", "recovery")
"""Functions without which jobs would wait for ever, and whose failures no caller sees."""

OTHERS = ("submission", "admin", "status", "instance_end", "projector", "sequel", "due")

TABLES = ("jobs", "agents", "keys", "counters", "output")
"""Tables that jobs and agents write all the time."""

INDEXES = ("jobs/by_tenant", "jobs/attention", "jobs/wake", "keys/by_type", "keys/waits")
"""Their indexes. A table whose index cannot take a write refuses it, and its own metric does not
count that."""

BASIC = (
    Alarm(
        "function-failed",
        "basic",
        "A function that must run fails: due jobs, dead letters or blocked jobs are not handled",
        {"m": _function("Errors", "Sum", MINUTE)},
        1,
        each="function",
        of=MUST_RUN,
        periods=5,
        breaching=3,
    ),
    _silent(
        "requeue",
        "The function requeue is not called: jobs with a run_at, deadlines and backoffs wait",
    ),
    _silent("scaler", "The function scaler is not called: fleets do not grow", "scaler"),
    _late("projector", 5, "The rates of queues are late: the projector lags behind its stream"),
    _late(
        "sequel",
        1,
        "Slots of keys that are free are not given, groups do not end and nobody is notified: the "
        "function sequel lags behind its stream",
    ),
    _letters(
        "dead-letters-unread",
        "dlq",
        "Letters stay in the dead-letter queue: the function dead_letter does not read them",
        all_of=2,
    ),
    _letters(
        "alternate-unread",
        "alternate",
        "Events that could not be delivered stay in the queue alternate: nobody reads them",
        all_of=2,
    ),
    _one(
        "schedules-refused",
        "basic",
        "What schedules start is refused: a queue or type is gone, or a tenant is at a limit",
        Metric(NAMESPACE, REFUSED_SCHEDULES, "Sum", {"Deployment": "{name}"}),
    ),
    _letters(
        "notify-dead-letters",
        "notify-dead",
        "Notifications could not be delivered: they are in the queue notify-dead",
        "notifier",
    ),
    _letters(
        "traces-dead-letters",
        "traces-dead",
        "Spans of jobs could not be exported, or were refused: what they are made of is in the "
        "queue traces-dead",
        "tracer",
    ),
    _letters(
        "exports-dead-letters",
        "exports-dead",
        "Ended jobs could not be exported to S3: they are in the queue exports-dead",
        "exporter",
    ),
    _one(
        "api-errors",
        "basic",
        "The API answers with server errors (5xx)",
        _api("5xx", FIVE_MINUTES),
        5,
    ),
    _one(
        "iam-api-errors",
        "basic",
        "The API for IAM roles answers with server errors (5xx)",
        _api("5xx", FIVE_MINUTES, "{iam_api}"),
        5,
        each="iam",
    ),
    _one(
        "public-requests",
        "basic",
        "Somebody keeps asking routes of the API that need no token, and each request is paid for",
        Metric(NAMESPACE, PUBLIC_REQUESTS, "Sum", {"Deployment": "{name}"}),
        5 * FIVE_MINUTES,  # 5 a second, half of what `joblane.contract.route.PUBLIC` lets through
        all_of=3,
    ),
    _one(
        "high-lane-waits",
        "basic",
        "Jobs have waited in a high lane for ten minutes, which never became empty",
        _queue("ApproximateNumberOfMessagesVisible", "Minimum", MINUTE, "lane-{queue}_high"),
        each="queue",
        all_of=10,
    ),
    _one(
        "jobs-fail",
        "basic",
        "Jobs of a queue have ended failed or dead for a quarter of an hour, ten in each five "
        "minutes",
        _of_queue(FAILED_JOBS, "Sum", FIVE_MINUTES),
        10,
        each="queue",
        all_of=3,
    ),
    _one(
        "recovery-executions-failed",
        "basic",
        "An execution that tests a condition failed; another is started in its place",
        Metric("AWS/States", "ExecutionsFailed", "Sum", {"StateMachineArn": "{recovery_machine}"}),
    ),
)
"""On metrics that AWS gives for nothing, and one of the API's access log."""

FULL = (
    Alarm(
        "other-function-failed",
        "full",
        "A function fails again and again",
        {"m": _function("Errors", "Sum", MINUTE)},
        1,
        each="function",
        of=OTHERS,
        periods=5,
        breaching=3,
    ),
    Alarm(
        "function-throttled",
        "full",
        "Lambda refuses calls of a function: its reservation or the account's concurrency is full",
        {"m": _function("Throttles", "Sum", MINUTE)},
        1,
        each="function",
        of=(*MUST_RUN, "submission", "projector", "sequel"),
        periods=5,
        breaching=3,
    ),
    _one(
        "requeue-slow",
        "full",
        "The function requeue needs more than 80 % of its 55 s: it may not reach all due jobs",
        _function("Duration", "Maximum", FIVE_MINUTES, "requeue"),
        0.8 * 55_000,
        ">",
        all_of=3,
    ),
    Alarm(
        "table-throttled",
        "full",
        "DynamoDB refuses writes to a table",
        {
            "m": Metric(
                "AWS/DynamoDB", "WriteThrottleEvents", "Sum", {"TableName": "{name}-{table}"}
            )
        },
        1,
        each="table",
        of=TABLES,
        periods=3,
        breaching=2,
    ),
    Alarm(
        "index-throttled",
        "full",
        "DynamoDB refuses writes to a table because of its index",
        {
            "m": Metric(
                "AWS/DynamoDB",
                "WriteThrottleEvents",
                "Sum",
                {"TableName": "{name}-{table}", "GlobalSecondaryIndexName": "{index}"},
            )
        },
        1,
        each="index",
        of=INDEXES,
        periods=3,
        breaching=2,
    ),
    Alarm(
        "no-agents",
        "full",
        "Jobs wait for a fleet in which no agent is alive",
        {"backlog": _of_fleet("Backlog", "Minimum"), "alive": _of_fleet("AgentsAlive", "Maximum")},
        1,
        each="fleet",
        expression="IF(backlog > 0 AND alive < 1, 1, 0)",
        periods=10,
        breaching=10,
    ),
    _fleet(
        "capacity-short",
        _of_fleet("CapacityShort", "Minimum"),
        15,
        "A fleet has had fewer instances than it asked for, for 15 minutes",
    ),
    _fleet(
        "agents-in-trouble",
        _of_fleet("AgentsInTrouble", "Minimum"),
        10,
        "An agent of a fleet cannot work, or an instance has had none for ten minutes",
    ),
    _fleet(
        "scaler-blind",
        _of_fleet("ScalerBlind", "Maximum"),
        5,
        "The scaler cannot read all that it decides by, so the fleet may not grow",
    ),
    *(
        Alarm(
            f"availability-{window}",
            "full",
            f"More than {FAST_BURN * 0.1:.2f} % of the API's answers were server errors",
            {"errors": _api("5xx", period), "requests": _api("Count", period)},
            FAST_BURN * 0.1,
            ">",
            expression="100 * FILL(errors, 0) / requests",
            notifies=False,
        )
        for window, period in (("5m", FIVE_MINUTES), ("1h", HOUR))
    ),
    *(
        Alarm(
            f"late-starts-{window}",
            "full",
            f"More than {FAST_BURN:.1f} % of a queue's jobs waited for more than 2 s while a fleet "
            "had a free slot",
            {
                "soon": _of_queue("WaitSeconds", "PR(:2)", period),
                "busy": _of_fleet("SlotsBusy", busy, period),
                "total": _of_fleet("SlotsTotal", total, period),
            },
            FAST_BURN,
            ">",
            each="service",
            expression="IF(busy < total, 100 - soon, 0)",
            notifies=False,
        )
        # A slot was free all of five minutes, and in the mean of the hour.
        for window, period, busy, total in (
            ("5m", FIVE_MINUTES, "Maximum", "Minimum"),
            ("1h", HOUR, "Average", "Average"),
        )
    ),
)
"""On custom metrics, and on more of those of AWS."""

BURNS = (
    Burn(
        "slo-availability",
        "The budget of server errors of the API is used up 14 times as fast as it may be",
        ("availability-5m", "availability-1h"),
    ),
    Burn(
        "slo-start",
        "The budget of late starts of a queue is used up 14 times as fast as it may be",
        ("late-starts-5m", "late-starts-1h"),
        "service",
    ),
)

ALARMS = (*BASIC, *FULL)

IDS = (*(alarm.id for alarm in ALARMS), *(burn.id for burn in BURNS))
"""Ids of all alarms. Alarms that only a `Burn` reads have pages as well."""


def runbook(why: str, alarm_id: str) -> str:
    """Return the description of an alarm."""
    return f"{why}. Runbook: {alarm_id}"
