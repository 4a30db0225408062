"""Notices of the instance's end, from the instance metadata service.

The service is polled every few seconds. Every failure of it means that there is no notice: a host
outside EC2 has no such service, and an agent whose service fails goes on working.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.host.metadata import Metadata, MetadataUnavailable
from ec2_agent.logging import events

POLL_S = 5.0
"""AWS recommends to look for a spot notice every five seconds."""

UNAVAILABLE_S = 60.0
"""Pause after a failure: a host without the service need not ask all day."""

SPOT_DRAIN_S = 75.0
"""Longest time that running jobs may go on after a spot notice.

The notice comes two minutes ahead: 5 s until it is read, these, 10 s of grace after SIGTERM,
10 s for the last output; 20 s are left for reports and what goes wrong with them.
"""

_SPOT = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_LIFECYCLE = "/latest/meta-data/autoscaling/target-lifecycle-state"


class Kind(Enum):
    """Why an agent must drain."""

    SPOT = "EC2 reclaims this spot instance"
    REBALANCE = "EC2 expects to reclaim this spot instance soon"
    SCALE_IN = "its Auto Scaling group ends this instance"


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice of this instance's end."""

    kind: Kind
    when: str | None = None
    """The time in EC2's notice, as EC2 wrote it."""

    def drain_s(self, usual_s: float) -> float:
        """How long running jobs may go on, given the agent's own `usual_s`."""
        return usual_s if self.kind is Kind.SCALE_IN else min(usual_s, SPOT_DRAIN_S)

    def __str__(self) -> str:
        return self.kind.value + (f" at {self.when}" if self.when else "")


def read_notice(metadata: Metadata) -> Notice | None:
    """Read the most urgent notice; None if there is none. Raises MetadataUnavailable."""
    if (action := metadata.get(_SPOT)) is not None:
        return Notice(Kind.SPOT, _field(action, "time"))
    if metadata.get(_LIFECYCLE) == "Terminated":
        return Notice(Kind.SCALE_IN)
    if (recommended := metadata.get(_REBALANCE)) is not None:
        return Notice(Kind.REBALANCE, _field(recommended, "noticeTime"))
    return None


def _field(text: str, name: str) -> str | None:
    try:
        value = json.loads(text)[name]
    except (ValueError, KeyError, TypeError):
        return None  # it is a notice all the same
    return value if isinstance(value, str) else None


async def watch(
    metadata: Metadata, on_notice: Callable[[Notice], None], poll_s: float = POLL_S
) -> None:
    """Poll until cancelled; pass on each kind of notice once."""
    passed_on: set[Kind] = set()
    available = True
    while True:
        try:
            notice = await in_thread(lambda: read_notice(metadata), "metadata")
        except (MetadataUnavailable, NoThread) as error:
            if available:
                events.no_notices(str(error))
            available = False
            await asyncio.sleep(UNAVAILABLE_S)
            continue
        available = True
        if notice is not None and notice.kind not in passed_on:
            passed_on.add(notice.kind)
            on_notice(notice)
        await asyncio.sleep(poll_s)
