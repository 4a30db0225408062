"""When an agent of a fleet ends its instance; pure decisions.

Only an agent knows whether its instance is idle, so groups end none by themselves (decision 1711).
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

FIRST_AGE = 0.9
"""Instances are old from this part of their longest lifetime on, each at a point of its own."""

AGAIN_S = 300.0
"""Pause after a refusal, in seconds, where no `idle_s` says how long it is."""


class LeaveReason(Enum):
    """Why an agent ends its instance."""

    REBALANCE = "EC2 expects to reclaim this spot instance soon"
    AGE = "the instance is old"
    SURPLUS = "its fleet needs fewer instances"
    IDLE = "the instance is idle"

    @property
    def waits(self) -> bool:
        """Whether the agent lets running jobs end, however long that takes.

        An idle one has none and stays if one comes; after a recommendation there is no time.
        """
        return self in {LeaveReason.AGE, LeaveReason.SURPLUS}


@dataclass(frozen=True, slots=True)
class LeavingPolicy:
    """When an agent leaves. Without values, as outside of fleets, never by itself."""

    idle_s: float | None = None
    """Seconds without a job after which it is idle; None: it stays, idle or surplus."""
    age_s: float | None = None
    """Seconds from the boot of its instance after which that is old; None: never."""

    @property
    def again_s(self) -> float:
        """How long it stays, in seconds, after its group has refused to end the instance."""
        return AGAIN_S if self.idle_s is None else self.idle_s


@dataclass(frozen=True, slots=True)
class IdleSituation:
    """What decides whether an agent leaves now."""

    age_s: float
    """Seconds since the boot of its instance."""
    idle_for_s: float = 0.0
    """Seconds for which it would have taken jobs and none came."""
    surplus: bool = False
    """Whether the scaler has named it as one that its fleet can spare."""
    refused_s_ago: float | None = None
    """Seconds since its group refused to end the instance; None: it has not."""
    able: bool = True
    """Whether it takes jobs, or would but for a resource that has run out: not while it drains,
    nor while an operator keeps it cordoned."""


def why_leave(policy: LeavingPolicy, now: IdleSituation) -> LeaveReason | None:
    """Decide whether an agent leaves, and why; None: it stays.

    Age counts first: an old instance leaves a group of the smallest size as well.
    """
    refused = now.refused_s_ago is not None and now.refused_s_ago < policy.again_s
    if refused or not now.able:
        return None
    if policy.age_s is not None and now.age_s >= policy.age_s:
        return LeaveReason.AGE
    if policy.idle_s is None:
        return None
    if now.surplus:
        return LeaveReason.SURPLUS
    return LeaveReason.IDLE if now.idle_for_s >= policy.idle_s else None


def old_at_s(instance: str, lifetime_s: float) -> float:
    """The age at which an instance is old, in seconds: between 90 and 100 % of its lifetime.

    The point is computed from its name, so that instances which started together do not leave
    together, and a later process of its agent comes to the same one.
    """
    part = zlib.crc32(instance.encode()) / 2**32
    return lifetime_s * (FIRST_AGE + (1 - FIRST_AGE) * part)


def decrements(reason: LeaveReason) -> Sequence[bool]:
    """What requests to end the instance say of the desired capacity: whether it falls by one.

    One after the other, each if the group refuses the one before: it keeps its smallest size. An
    old instance is then replaced. EC2 reclaims a spot instance in any case, and with capacity
    rebalancing its replacement is there.
    """
    match reason:
        case LeaveReason.REBALANCE:
            return (False,)
        case LeaveReason.AGE:
            return (True, False)
        case LeaveReason.SURPLUS | LeaveReason.IDLE:
            return (True,)


@dataclass(frozen=True, slots=True)
class Look:
    """What an agent was seen to do at a moment."""

    at_work: bool
    """Whether it had a job, an outcome that waits, or anything else to do."""
    able: bool
    """Whether nothing kept it from taking jobs: no trouble, no cordon, a lease that is held."""
    begun: int
    """Jobs that it has taken so far."""
    failed: int
    """Polls of lanes that have failed so far."""
    stalled: bool
    """Whether a poll has been open for longer than SQS keeps one open."""


@dataclass(frozen=True, slots=True)
class Idleness:
    """Since when an agent has been idle.

    Only answers of SQS show that nothing waits: a poll that fails or hangs ends the time without
    jobs, or an outage of SQS would empty every fleet.
    """

    since: float
    begun: int = 0
    failed: int = 0

    def after(self, look: Look, now: float) -> "Idleness":
        """What is known after a look; `now` is in seconds, on the clock of `since`."""
        same = (look.begun, look.failed) == (self.begun, self.failed)
        if same and look.able and not look.at_work and not look.stalled:
            return self
        return Idleness(now, look.begun, look.failed)
