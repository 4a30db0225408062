"""The alarms of a deployment, as data: what is measured, when it is an alarm, and why.

Names in braces stand for the deployment (`name`), the id of its API (`api`), its state machine
(`recovery_machine`), and for what the alarm is made for each of (`Each`). `docs/RUNBOOK.md` has a
page for each id.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from joblane.config.observability import Level
from joblane.deployment.metrics import NAMESPACE

Each = Literal[
    "deployment",
    "function",
    "queue",
    "lane",
    "fleet",
    "service",
    "table",
    "notifier",
    "scaler",
    "tracer",
]
"""What an alarm is made for each of. `service`: a queue and a fleet that serves it; `notifier`: the
deployment, if a tenant may notify; `scaler`: the deployment, if it has fleets; `tracer`: the
deployment, if it exports spans."""

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
    """The functions or tables that it is made for."""
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


def _api(metric: str, period_s: int) -> Metric:
    return Metric("AWS/ApiGateway", metric, "Sum", {"ApiId": "{api}"}, period_s)


def _of_queue(metric: str, statistic: str, period_s: int) -> Metric:
    by = {"Deployment": "{name}", "Queue": "{queue}"}
    return Metric(NAMESPACE, metric, statistic, by, period_s)


def _of_fleet(metric: str, statistic: str, period_s: int = MINUTE) -> Metric:
    by = {"Deployment": "{name}", "Fleet": "{fleet}"}
    return Metric(NAMESPACE, metric, statistic, by, period_s)


MUST_RUN = ("requeue", "dead_letter", "recovery")
"""Functions without which jobs would wait for ever, and whose failures no caller sees."""

OTHERS = ("submission", "admin", "status", "instance_end", "projector", "sequel")

TABLES = ("jobs", "agents", "keys", "counters", "output")
"""Tables that jobs and agents write all the time."""

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
    Alarm(
        "requeue-silent",
        "basic",
        "The function requeue is not called: jobs with a run_at, deadlines and backoffs wait",
        {"m": _function("Invocations", "Sum", FIVE_MINUTES, "requeue")},
        1,
        "<",
        missing="breaching",
    ),
    Alarm(
        "scaler-silent",
        "basic",
        "The function scaler is not called: fleets do not grow",
        {"m": _function("Invocations", "Sum", FIVE_MINUTES, "scaler")},
        1,
        "<",
        each="scaler",
        missing="breaching",
    ),
    Alarm(
        "projector-late",
        "basic",
        "The rates of queues are late: the projector lags behind its stream",
        {"m": _function("IteratorAge", "Maximum", MINUTE, "projector")},
        5 * 60 * 1000,
        ">",
        periods=5,
        breaching=5,
    ),
    Alarm(
        "sequel-late",
        "basic",
        "Slots of keys that are free are not given, groups do not end and nobody is notified: the "
        "function sequel lags behind its stream",
        {"m": _function("IteratorAge", "Maximum", MINUTE, "sequel")},
        60 * 1000,
        ">",
        periods=5,
        breaching=5,
    ),
    Alarm(
        "dead-letters-unread",
        "basic",
        "Letters stay in a dead-letter queue: the function dead_letter does not read them",
        {
            "m": _queue(
                "ApproximateNumberOfMessagesVisible", "Maximum", FIVE_MINUTES, "dlq-{queue}_{lane}"
            )
        },
        1,
        each="lane",
        periods=2,
        breaching=2,
    ),
    Alarm(
        "alternate-unread",
        "basic",
        "Events that could not be delivered stay in the queue alternate: nobody reads them",
        {"m": _queue("ApproximateNumberOfMessagesVisible", "Maximum", FIVE_MINUTES, "alternate")},
        1,
        periods=2,
        breaching=2,
    ),
    Alarm(
        "notify-dead-letters",
        "basic",
        "Notifications could not be delivered: they are in the queue notify-dead",
        {"m": _queue("ApproximateNumberOfMessagesVisible", "Maximum", FIVE_MINUTES, "notify-dead")},
        1,
        each="notifier",
    ),
    Alarm(
        "traces-dead-letters",
        "basic",
        "Spans of jobs could not be exported, or were refused: what they are made of is in the "
        "queue traces-dead",
        {"m": _queue("ApproximateNumberOfMessagesVisible", "Maximum", FIVE_MINUTES, "traces-dead")},
        1,
        each="tracer",
    ),
    Alarm(
        "api-errors",
        "basic",
        "The API answers with server errors (5xx)",
        {"m": _api("5xx", FIVE_MINUTES)},
        5,
    ),
    Alarm(
        "high-lane-waits",
        "basic",
        "Jobs have waited in a high lane for ten minutes, which never became empty",
        {"m": _queue("ApproximateNumberOfMessagesVisible", "Minimum", MINUTE, "lane-{queue}_high")},
        1,
        each="queue",
        periods=10,
        breaching=10,
    ),
    Alarm(
        "recovery-executions-failed",
        "basic",
        "An execution that tests a condition failed; another is started in its place",
        {
            "m": Metric(
                "AWS/States", "ExecutionsFailed", "Sum", {"StateMachineArn": "{recovery_machine}"}
            )
        },
        1,
    ),
)
"""On metrics that AWS gives for nothing."""

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
    Alarm(
        "requeue-slow",
        "full",
        "The function requeue needs more than 80 % of its 55 s: it may not reach all due jobs",
        {"m": _function("Duration", "Maximum", FIVE_MINUTES, "requeue")},
        0.8 * 55_000,
        ">",
        periods=3,
        breaching=3,
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
    Alarm(
        "capacity-short",
        "full",
        "A fleet has had fewer instances than it asked for, for 15 minutes",
        {"m": _of_fleet("CapacityShort", "Minimum")},
        1,
        each="fleet",
        periods=15,
        breaching=15,
    ),
    Alarm(
        "agents-in-trouble",
        "full",
        "An agent of a fleet cannot work, or an instance has had none for ten minutes",
        {"m": _of_fleet("AgentsInTrouble", "Minimum")},
        1,
        each="fleet",
        periods=10,
        breaching=10,
    ),
    Alarm(
        "scaler-blind",
        "full",
        "The scaler cannot read all that it decides by, so the fleet may not grow",
        {"m": _of_fleet("ScalerBlind", "Maximum")},
        1,
        each="fleet",
        periods=5,
        breaching=5,
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
