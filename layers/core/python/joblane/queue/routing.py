"""Which queue takes a job: the one that it names, the first whose filter is true, the default.

Pure, and without the library that evaluates filters (`joblane.queue.filters`).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from joblane.formats.times import unix_ms
from joblane.job.fields import COMMAND
from joblane.job.spec import Submission, parse_valid_target
from joblane.queue.retired import Retired, why_retired

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

Kind = Literal["string", "bool", "int", "double", "map(string, string)"]
"""A type of CEL."""

Value = str | bool | int | float | Mapping[str, str]


class Variable(NamedTuple):
    """A name that filters may use."""

    kind: Kind
    meaning: str
    """What it is, also where the submission does not say it."""


VARIABLES: Final[Mapping[str, Variable]] = MappingProxyType(
    {
        "tenant": Variable("string", "The tenant of the caller"),
        "submitter": Variable("string", "The name of the user or machine that submits"),
        "name": Variable("string", "The job's name; empty if not set"),
        "job_type": Variable("string", "The job type; `command` for a job without a type"),
        "priority": Variable("string", "`high`, `default` or `low`; `default` if not set"),
        "target": Variable("string", "The target, such as `host:web-1`; empty for any agent"),
        "network": Variable("string", "`none`, `egress` or `host`; `none` if not set"),
        "labels": Variable("map(string, string)", "The labels; empty if not set"),
        "items": Variable("int", "Number of work items; `1` if not set"),
        "timeout_s": Variable("double", "Time limit of an attempt in seconds; `600.0` if not set"),
        "heartbeat_timeout_s": Variable(
            "double", "Seconds after which a silent attempt is stopped; `0.0` if not set"
        ),
        "restartable": Variable("bool", "Whether it may start twice; `true` if not set"),
        "max_attempts": Variable("int", "Maximum number of attempts; `3` if not set"),
        "cpus": Variable("double", "CPU limit in cores; `0.0` if not set"),
        "cores": Variable("string", "Cores to run on, such as `0-2,5`; empty if not set"),
        "memory_mb": Variable("int", "Memory limit in MiB; `512` if not set"),
        "tmp_mb": Variable(
            "int", "Size of /tmp in MiB; if not set, `256`, or half of `memory_mb` if that is less"
        ),
        "disk_mb": Variable("int", "Size of the work directory on disk in MiB; `0` if not set"),
        "io_bps": Variable("int", "Bytes read or written a second; `0` if not set"),
        "pids": Variable("int", "Limit of processes and threads; `1024` if not set"),
        "mask_secrets": Variable("bool", "Whether secrets are masked; `true` if not set"),
        "merge_stderr": Variable("bool", "Whether both streams are one; `false` if not set"),
        "reply_timeout_s": Variable(
            "double", "Seconds that the agents of a target have to start it; `0.0` if not set"
        ),
        "max_concurrency": Variable(
            "int", "Maximum number of a group's jobs that run at once; `0` if not set"
        ),
        "max_failures": Variable(
            "int", "Failures after which no further jobs of a group start; `-1` if not set"
        ),
        "weekday": Variable(
            "int", "Day of the week in UTC, 1 (Monday) to 7 (Sunday), of the same time as `hour`"
        ),
        "hour": Variable(
            "int", "Hour of the day in UTC, 0 to 23: of `run_at` if it is later, else of now"
        ),
        "minute": Variable("int", "Minute of that hour, 0 to 59"),
    }
)


_EPOCH_WEEKDAY: Final = 4  # 1970-01-01 was a Thursday


class DefaultQueues(NamedTuple):
    """The queues of jobs that name none and for which no filter is true."""

    queue: str
    """That of tenants without one of their own."""
    own: Mapping[str, str] = MappingProxyType({})
    """By tenant."""

    def of(self, tenant: str) -> str:
        """Return that of a tenant, which it may not be allowed to use."""
        return self.own.get(tenant, self.queue)


class QueueFilter(NamedTuple):
    """The filter of a queue."""

    queue: str
    order: int
    """Filters are evaluated by falling order, which is unique."""
    expression: str


def attributes(tenant: str, submitter: str, spec: Submission, now_ms: int) -> dict[str, Value]:
    """Return the values of `VARIABLES` for a submission, with the defaults of its type."""
    start_ms = now_ms if spec.run_at is None else max(now_ms, unix_ms(spec.run_at))
    resources = spec.resources
    return {
        "tenant": tenant,
        "submitter": submitter,
        "name": spec.name or "",
        "job_type": spec.type or COMMAND,
        "priority": spec.priority,
        "target": str(parse_valid_target(spec.target) or ""),
        "network": spec.network,
        "labels": dict(spec.labels),
        "items": spec.items,
        "timeout_s": float(spec.timeout_s),
        "heartbeat_timeout_s": float(spec.heartbeat_timeout_s or 0),
        "restartable": spec.restartable,
        "max_attempts": spec.retry.max_attempts,
        "cpus": float(resources.cpus or 0),
        "cores": resources.cores or "",
        "memory_mb": resources.memory,
        "tmp_mb": resources.tmp,
        "disk_mb": resources.disk_mb or 0,
        "io_bps": resources.io_bps or 0,
        "pids": resources.processes,
        "mask_secrets": spec.mask_secrets,
        "merge_stderr": spec.merge_stderr,
        "reply_timeout_s": float(spec.reply_timeout_s or 0),
        "max_concurrency": spec.max_concurrency or 0,
        "max_failures": -1 if spec.max_failures is None else spec.max_failures,
        "weekday": (start_ms // DAY_MS + _EPOCH_WEEKDAY - 1) % 7 + 1,
        "hour": start_ms // HOUR_MS % 24,
        "minute": start_ms // MINUTE_MS % 60,
    }


Evaluate = Callable[[QueueFilter], bool | str]
"""Says whether a filter is true; a text says why it could not be evaluated."""

By = Literal["name", "filter", "default"]


class ChosenQueue(NamedTuple):
    """The queue that takes a job, and why."""

    queue: str | None
    """None if no queue takes it."""
    by: By | None
    """What chose the queue; None if none did. A job that names one is not routed by filters."""
    not_true: Mapping[str, str | None]
    """Queues whose filters were evaluated before and were not true, with the error if any."""


def choose(
    named: str | None,
    allowed: Sequence[str],
    default: str,
    filters: Sequence[QueueFilter],
    evaluate: Evaluate,
    retired: Retired = MappingProxyType({}),
) -> ChosenQueue:
    """Choose the queue of a job among those that its tenant may use, `allowed`.

    `named` is the queue that the job names. `filters` are by falling order; the first true one
    wins, and those after it are not evaluated. A queue that is retired is never chosen, and its
    filter is not evaluated.
    """
    allowed = [queue for queue in allowed if queue not in retired]
    if named is not None:
        return ChosenQueue(named, "name", {}) if named in allowed else ChosenQueue(None, None, {})
    not_true: dict[str, str | None] = {}
    for each in filters:
        if each.queue not in allowed:
            continue
        result = evaluate(each)
        if result is True:
            return ChosenQueue(each.queue, "filter", not_true)
        not_true[each.queue] = result or None
    if default in allowed:
        return ChosenQueue(default, "default", not_true)
    return ChosenQueue(None, None, not_true)


Verdict = Literal["takes", "not_allowed", "retired", "false", "error", "not_reached", "no_filter"]


class Considered(NamedTuple):
    """A queue, and whether it takes a job."""

    queue: str
    filter: QueueFilter | None
    verdict: Verdict
    reason: str


def explain(
    choice: ChosenQueue,
    named: str | None,
    allowed: Sequence[str],
    default: str,
    filters: Sequence[QueueFilter],
    retired: Retired = MappingProxyType({}),
) -> list[Considered]:
    """Say of each queue that a tenant may use whether it takes the job: arguments as of `choose`.

    In the order of evaluation: a queue that the job names, the filters, the other queues. Queues of
    other tenants are left out; one that the job names is there, whether or not it exists.
    """
    found: list[Considered] = []
    by_queue = {each.queue: each for each in filters}
    if named is not None and named not in allowed:
        found.append(
            Considered(named, None, "not_allowed", "is unknown, or is not a queue of this tenant")
        )
    ordered = [each.queue for each in filters if each.queue in allowed]
    ordered += [queue for queue in allowed if queue not in by_queue]
    ordered.sort(key=lambda queue: queue != named)
    for queue in ordered:
        if (why := why_retired(queue, retired, allowed)) is not None:
            found.append(Considered(queue, by_queue.get(queue), "retired", f"it {why}"))
            continue
        verdict, reason = _verdict(choice, queue, named, default, by_queue.get(queue))
        found.append(Considered(queue, by_queue.get(queue), verdict, reason))
    return found


def _verdict(
    choice: ChosenQueue, queue: str, named: str | None, default: str, has: QueueFilter | None
) -> tuple[Verdict, str]:
    if queue == choice.queue:
        return "takes", _why(choice)
    if named is not None:
        return "not_reached", f"the submission names queue {named}"
    if queue in choice.not_true:
        error = choice.not_true[queue]
        if error is None:
            return "false", "its filter is false"
        return "error", f"its filter cannot be evaluated: {error}"
    if has is None:
        only = "only by name, or if no filter is true" if queue == default else "only by name"
        return "no_filter", f"it has no filter, so it takes jobs {only}"
    return "not_reached", f"queue {choice.queue} is before it, and its filter is true"


def _why(choice: ChosenQueue) -> str:
    match choice.by:
        case "name":
            return "the submission, or the job type, names it"
        case "filter":
            return "its filter is the first that is true"
        case _:
            why = "no filter is true" if choice.not_true else "there is no filter to evaluate"
            return f"{why}, and it is the default queue"
