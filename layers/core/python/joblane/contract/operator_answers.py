"""Answers to what operators do to many jobs, a page at a time."""

from joblane.contract.views import Sweep


class Requeued(Sweep):
    """Result of one page of a requeue."""

    requeued: int
    """Number of messages sent."""


class Restarted(Sweep):
    """Result of one page of a restart."""

    restarted: int
    """Number of jobs started again."""


class DeadReplayed(Sweep):
    """What one request of replaying the dead jobs that filters select did."""

    replayed: int
    """Jobs that start again."""


class DeadDismissed(Sweep):
    """What one request of dismissing the dead jobs that filters select did."""

    dismissed: int
    """Jobs that were dismissed."""
