"""What the scaler last decided for a fleet, and why capacity does not come."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joblane.fleet.absence import BootFailure

SHORT_AFTER_MS = 900_000
"""Capacity is short when a group has had fewer instances than desired for this long; or at once
when Auto Scaling's newest attempt to launch one has failed."""

STUCK_AFTER_MS = 600_000
"""A group is stuck when it has been crowded for this long. EC2's replacement of a spot instance, or
one for a balance of zones, makes a group crowded for less."""

WRITE_EVERY_MS = 300_000
"""A record is written when it says something new, and at least this often."""

STALE_MS = 600_000
"""A record that is older than this says nothing about now: the scaler does not run."""


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """One fleet, as of the scaler's last call that had something to say."""

    decided_ms: int
    """When, in Unix milliseconds."""
    wanted: int
    """Slots wanted: jobs that run, and messages that could start."""
    desired: int
    """Desired capacity of the group after the call."""
    max: int
    """Largest size of the group."""
    in_service: int
    """Instances in service, with or without an agent."""
    alive: int
    """Agents that take jobs."""
    busy: int
    """Instances whose agents have jobs."""
    booting: int
    """Instances whose agent is expected."""
    backlog: int = 0
    """Messages that could start and that this fleet is to run."""
    limit: str | None = None
    """Why the fleet is not raised by all that it needs (`joblane.fleet.wanted.Limit`)."""
    below_since_ms: int | None = None
    """Since when it has had fewer instances in service than desired; None: it has them all."""
    crowded_since_ms: int | None = None
    """Since when it has had more instances than its smallest size lets end; None: it has not."""
    short_since_ms: int | None = None
    """Since when capacity has been short; None: it is not."""
    short_reason: str | None = None
    """Why, in the words of Auto Scaling."""
    blind_since_ms: int | None = None
    """Since when the scaler has not been able to read all that it decides by; None: it can."""
    blind_reason: str | None = None
    """What cannot be read, and the error."""
    blind_queues: tuple[str, ...] = ()
    """Queues of the fleet whose lanes cannot be read; none: it is something else, or nothing."""
    raised_ms: int | None = None
    """When the desired capacity was last raised."""
    roomy_since_ms: int | None = None
    """Since when nothing has waited while at least half of the slots were free; None: not now."""
    suspended: tuple[str, ...] = ()
    """Processes of the group that somebody has suspended, such as `Launch`, sorted."""
    boot_failed_ms: int | None = None
    """When an instance booted that has no agent because its boot failed, the last such one; None: a
    later boot went well, or none has failed."""
    boot_failed_instance: str | None = None
    """Its id."""
    boot_failed_reason: str | None = None
    """What it did not do, after its id: `failed its setup: exit code 3`."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Queues of this fleet with more messages than free slots, and since when."""

    def stale(self, now_ms: int) -> bool:
        """Whether the scaler has not written for so long that the record says nothing about now."""
        return now_ms - self.decided_ms >= STALE_MS

    @property
    def boot_failure(self) -> BootFailure | None:
        """The last instance whose boot failed, unless a later boot went well."""
        at_ms, instance, reason = (
            self.boot_failed_ms,
            self.boot_failed_instance,
            self.boot_failed_reason,
        )
        if at_ms is None or instance is None or reason is None:
            return None
        return BootFailure(instance, at_ms, reason)

    @property
    def short(self) -> bool:
        """Whether capacity is short."""
        return self.short_since_ms is not None


def to_write(before: FleetRecord | None, after: FleetRecord) -> bool:
    """Whether a record says something new, or the stored one is old."""
    if before is None or after.decided_ms - before.decided_ms >= WRITE_EVERY_MS:
        return True
    return _select_visible(before) != _select_visible(after)


def _select_visible(record: FleetRecord) -> tuple[object, ...]:
    """What a reader is told. Not the load, which changes with every call."""
    return (
        record.desired,
        record.max,
        record.in_service,
        record.limit,
        record.below_since_ms,
        record.crowded_since_ms,
        record.short_since_ms,
        record.short_reason,
        record.blind_since_ms,
        record.blind_reason,
        record.blind_queues,
        record.raised_ms,
        record.roomy_since_ms,
        record.suspended,
        record.boot_failed_ms,
        record.boot_failed_instance,
        record.boot_failed_reason,
        record.booting,  # changes only while instances come
        dict(record.waiting),
    )
