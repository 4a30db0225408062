"""What a test hands to a deployment in memory, checked; each raises ValueError."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from joblane.condition.names import parse
from joblane.handler.job_type import JobType
from joblane.testing.attempts import End
from joblane.testing.recovery import TESTED


def next_minute() -> datetime:
    """The next full minute of the real time."""
    now = datetime.now(UTC)
    return now.replace(second=0, microsecond=0) + timedelta(minutes=1)


def by_name(types: Iterable[JobType[Any, Any]]) -> dict[str, JobType[Any, Any]]:
    """Handlers by the names of their types."""
    if isinstance(types, JobType):
        raise ValueError(f"types is a list of handlers; write [{types.name}]")  # noqa: TRY004
    found: dict[str, JobType[Any, Any]] = {}
    for each in types:
        if not isinstance(each, JobType):
            raise ValueError(f"types has {each!r}, which is no handler: decorate it with @job_type")  # noqa: TRY004
        if each.name in found:
            raise ValueError(f"types has two handlers of the type {each.name}")
        found[each.name] = each
    return found


def id_of(job: object) -> str:
    """The id of a job, of which it may be the handle."""
    job_id = job if isinstance(job, str) else getattr(job, "id", None)
    if not isinstance(job_id, str):
        raise ValueError(f"expected a job or its id; not {job!r}")  # noqa: TRY004
    return job_id


def as_end(end: object) -> End:
    """An end, of which it may be the exit code."""
    if isinstance(end, End):
        return end
    if type(end) is int:
        return End(exit_code=end)
    raise ValueError(f"an attempt ends by an End or an exit code; not by {end!r}")


def tested(condition: str) -> str:
    """The name of a condition that a deployment tests."""
    try:
        kind = parse(condition).kind
    except ValueError as error:
        raise ValueError(f"condition {condition!r} {error}") from None
    if kind not in TESTED:
        raise ValueError(
            f"condition {condition!r} is not tested by a deployment, as those of "
            f"{' and '.join(TESTED)} are; declare it with the client"
        )
    return condition
