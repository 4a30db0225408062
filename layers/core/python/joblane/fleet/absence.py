"""The row of an instance without an agent, which says since when that is so."""

from joblane.job.lease import Heartbeat

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
