"""Edits that let a job start sooner, as commands. Pure.

Only what the API would take is named (`joblane.service.job.edit.Edits`); what no edit can mend has
no command here.
"""

from collections.abc import Callable, Iterable
from typing import Final

from joblane.deployment.names import LANES
from joblane.fleet.serving import Capabilities
from joblane.job.edit import patched
from joblane.job.offers import offers
from joblane.job.spec import Submission
from joblane.queue.maxima import excess
from joblane.state.lease import Heartbeat, HostDisk
from joblane.why.situation import Situation

_OF_A_DISK: Final = 90
"""Percent of a disk that a work directory may have: a file with a file system takes more than the
size that it is for."""

MOST_QUEUES: Final = 3
"""Queues that are named at most."""


def in_first_lane(s: Situation) -> tuple[str, ...]:
    """Let the job wait in the lane that agents serve first."""
    first = LANES[0]
    return () if s.head.lane == first else _edit(s, f"--priority {first}")


def without_deadline(s: Situation) -> tuple[str, ...]:
    """Let the job wait for as long as it takes."""
    return _edit(s, "--deadline none")


def in_queue_of(s: Situation, ready: Iterable[Heartbeat]) -> tuple[str, ...]:
    """Let the job wait in a queue of agents that could start it."""
    if s.head.assigned is not None:
        return ()
    served = {queue for row in ready for queue in row.queues}
    fitting = [name for name in s.others if name in served]
    return tuple(
        command for name in fitting[:MOST_QUEUES] for command in _edit(s, f"--queue {name}")
    )


def within_fleets(s: Situation) -> tuple[str, ...]:
    """Let the job ask for no more than a fleet of its queue gives."""
    spec: Submission | None = s.head.spec
    options: list[str] = []
    maxima = () if s.queue is None else s.queue.maxima
    while spec is not None and (found := excess(spec.resources, maxima)) is not None:
        field, most = found
        if field == "cores" and s.head.type_version is not None:
            return ()  # `none` would be what its type sets
        value = None if field == "cores" else most  # which ones it may have instead is not known
        options.append(f"--{field.replace('_', '-')} {'none' if value is None else value}")
        spec = _with_limit(spec, field, value)
    if spec is None or not options or _depends_on_fleets(spec):
        return ()
    return _edit(s, " ".join(options))


def within_memory_of(s: Situation, agents: Iterable[Heartbeat]) -> tuple[str, ...]:
    """Let the job ask for no more memory than one of these agents gives, if it lacks only that."""
    given = [row.memory_mb for row in agents if _gives_all_but_memory(s, row)]
    most = max((memory_mb for memory_mb in given if memory_mb is not None), default=None)
    return () if most is None else _edit(s, f"--memory-mb {most}")


def _gives_all_but_memory(s: Situation, row: Heartbeat) -> bool:
    if row.memory_mb is None or _depends_on_fleets(s.head.spec):
        return False
    spec = _with_limit(s.head.spec, "memory_mb", row.memory_mb)
    if spec is None or Capabilities.of(row).missing(spec, s.head.own_disk_mb):
        return False
    return s.queue is None or excess(spec.resources, s.queue.maxima) is None


def within_disk_of(
    s: Situation, agents: Iterable[Heartbeat], has: Callable[[HostDisk], int]
) -> tuple[str, ...]:
    """Let the work directory ask for no more than one of these agents has, if that is enough.

    Not for less than the input files that are placed there need.
    """
    most = max((_fitting_disk(s, row, has) for row in agents), default=0)
    return _edit(s, f"--disk-mb {most}") if most >= max(1, s.head.files_mb) else ()


def _fitting_disk(s: Situation, row: Heartbeat, has: Callable[[HostDisk], int]) -> int:
    """The largest work directory for which an agent has all that the job asks for; 0: none."""
    if row.disk is None or not s.head.work_mb or _depends_on_fleets(s.head.spec):
        return 0
    left = has(row.disk) - s.head.own_disk_mb
    if left < 0:
        return 0
    left = left if row.work_disk is None else has(row.work_disk)
    size_mb = min(left * _OF_A_DISK // 100, s.head.work_mb)
    spec = _with_limit(s.head.spec, "disk_mb", size_mb)
    if spec is None or Capabilities.of(row).missing(spec, s.head.own_disk_mb):
        return 0
    return size_mb if s.queue is None or excess(spec.resources, s.queue.maxima) is None else 0


def _with_limit(spec: Submission, field: str, value: float | None) -> Submission | None:
    """The submission with another limit; None if no job may have it."""
    try:
        return patched(spec, {"resources": {field: value}})
    except ValueError:
        return None


def may_edit(s: Situation) -> bool:
    """Whether the API takes an edit of the job."""
    return "edit" in offers(s.head, s.now_ms)


def _edit(s: Situation, options: str) -> tuple[str, ...]:
    if not may_edit(s):
        return ()
    return (f"joblane edit {s.head.job_id} {options}",)


def _depends_on_fleets(spec: Submission) -> bool:
    """Whether only some fleets allow its network; which ones is not known here."""
    return spec.network == "host"
