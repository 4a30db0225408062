"""The most that one job may ask for on a fleet."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from joblane.job.spec import DEFAULT_MEMORY_MB, Resources
from joblane.job.wanted import read_wanted


class Maxima(BaseModel):
    """The most that one job may ask for; a limit that is left out is what the instance has."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    memory_mb: Annotated[int, Field(ge=DEFAULT_MEMORY_MB)] | None = None
    """Memory in MiB; at least the default of jobs, 512."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """CPU bandwidth in cores."""
    pids: Annotated[int, Field(ge=1024)] | None = None
    """Processes and threads; at least the default of jobs, 1024."""
    cores: Annotated[int, Field(ge=1)] | None = None
    """Cores of an instance: a job's `cores` may name those below it."""
    tmp_mb: Annotated[int, Field(ge=256)] | None = None
    """Size of /tmp and of the work directory in MiB; at least the default of jobs, 256."""
    disk_mb: Annotated[int, Field(ge=1)] | None = None
    """Size of a work directory on the instance's disk in MiB."""


_BY_QUEUE: TypeAdapter[dict[str, tuple[Maxima, ...]]] = TypeAdapter(
    dict[str, tuple[Maxima, ...]], config=ConfigDict(defer_build=True)
)


def read_maxima(text: str) -> dict[str, tuple[Maxima, ...]]:
    """Read the maxima of the fleets of each queue, as JSON."""
    return _BY_QUEUE.validate_json(text)


def problem_of(field: str, most: float, queue: str) -> str:
    """What is wrong with a field that `excess` returned."""
    if field == "cores":
        return (
            f"must name cores below {most:g}: an instance of a fleet of queue {queue} has {most:g}"
        )
    return f"must be at most {most:.10g}, the most that a fleet of queue {queue} gives"


def excess(asked: Resources, fleets: Iterable[Maxima]) -> tuple[str, float] | None:
    """Return a field that no fleet can give, and the most that is allowed; None if one can.

    `fleets` are the maxima of the fleets of a queue; a queue without fleets has no maxima. Fleets
    that lack one resource do not count for the next, so what passes fits on a single fleet.
    """
    able = list(fleets)
    for field in Maxima.model_fields:
        amount = read_wanted(asked, field)
        if amount is None or not able:
            continue
        fitting = [m for m in able if (most := getattr(m, field)) is None or amount <= most]
        if not fitting:
            return field, max(getattr(m, field) for m in able)
        able = fitting
    return None
