"""Which queue takes a job: the one that it names, the first whose filter is true, the default.

Pure, and without the library that evaluates filters (`joblane.queue.filters`).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from joblane.formats.times import unix_ms
from joblane.job.fields import COMMAND
from joblane.job.spec import Submission
from joblane.queue.retired import Retired, why_retired

HOUR_MS: Final = 3_600_000

Kind = Literal["string", "int", "double", "map(string, string)"]
"""A type of CEL."""

Value = str | int | float | Mapping[str, str]


class Variable(NamedTuple):
    """A name that filters may use."""

    kind: Kind
    meaning: str
    """What it is, also where the submission does not say it."""


VARIABLES: Final[Mapping[str, Variable]] = MappingProxyType(
    {
        "tenant": Variable("string", "The tenant of the caller"),
        "job_type": Variable("string", "The job type; `command` for a job without a type"),
        "submitter": Variable("string", "The name of the user or machine that submits"),
        "priority": Variable("string", "`high`, `default` or `low`; `default` if not set"),
        "cpus": Variable("double", "CPU limit in cores; `0.0` if not set"),
        "memory_mb": Variable("int", "Memory limit in MiB; `512` if not set"),
        "pids": Variable("int", "Limit of processes and threads; `1024` if not set"),
        "items": Variable("int", "Number of work items; `1` if not set"),
        "hour": Variable(
            "int", "Hour of the day in UTC, 0 to 23: of `run_at` if it is later, else of now"
        ),
        "network": Variable("string", "`none`, `egress` or `host`; `none` if not set"),
        "labels": Variable("map(string, string)", "The labels; empty if not set"),
    }
)


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
        "job_type": spec.type or COMMAND,
        "submitter": submitter,
        "priority": spec.priority,
        "cpus": float(resources.cpus or 0),
        "memory_mb": resources.memory,
        "pids": resources.processes,
        "items": spec.items,
        "hour": start_ms // HOUR_MS % 24,
        "network": spec.network,
        "labels": dict(spec.labels),
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
