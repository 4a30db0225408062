"""The row of an instance without an agent, which says since when that is so, and why."""

from collections.abc import Iterable
from dataclasses import dataclass

from joblane.state.lease import Heartbeat

NO_AGENT = "no agent yet"
"""Trouble of an instance without a heartbeat."""


def absent(instance: str, now_ms: int) -> Heartbeat:
    """The row of an instance whose agent has not written one; no reader takes it for an agent."""
    return Heartbeat(
        name=instance,
        since_ms=now_ms,
        beat_ms=now_ms,
        threads=0,
        running=0,
        queues=(),
        isolation="none",
        version="none",
        trouble=NO_AGENT,
        lease_s=0,
    )


@dataclass(frozen=True, slots=True)
class BootFailure:
    """An instance whose boot has failed, so that it has no agent."""

    instance: str
    booted_ms: int
    """When it booted, in Unix milliseconds."""
    reason: str
    """What it did not do, after the name of the instance: `failed its setup: exit code 3`."""


def last_boot_failure(rows: Iterable[Heartbeat]) -> BootFailure | None:
    """The failure of the instance that booted last, of those whose user data has reported one."""
    failed = [row for row in rows if row.lease_s == 0 and row.trouble not in {None, NO_AGENT}]
    if not failed:
        return None
    row = max(failed, key=lambda row: (row.beat_ms, row.name))
    return BootFailure(row.name, row.beat_ms, row.trouble or "")
