"""What agents whose hosts lack something for a job have written into its timeline. Pure.

A host says by itself what no job can have there (`Heartbeat.lacks`); what one job asks too much of
(a core, a disk that is larger than the host's) shows when an agent has claimed it (decision 1633).
"""

import re
from collections.abc import Iterable
from itertools import pairwise

from joblane.state.lifecycle import State
from joblane.state.timeline import Step

_AFTER = re.compile("; waits for (?:another )?agent")
"""How `joblane.state.lifecycle.settle` goes on, unless it was cut off."""


def describe_lack(agent: str, lack: str) -> str:
    """Write the reason of an attempt that could not be started on the agent's host."""
    return f"{_prefix(agent)}{lack}"


def lacking_agents(timeline: Iterable[Step]) -> dict[str, tuple[int, str]]:
    """Agents that have handed a job back for what their hosts lack: when (Unix ms), and what."""
    return {
        claim.agent: (step.at_ms, _AFTER.split(step.reason.removeprefix(_prefix(claim.agent)))[0])
        for claim, step in pairwise(timeline)
        if claim.state is State.ACTIVE
        and claim.agent is not None
        and step.state is State.PENDING
        and step.reason.startswith(_prefix(claim.agent))
    }


def _prefix(agent: str) -> str:
    return f"agent {agent}: "
