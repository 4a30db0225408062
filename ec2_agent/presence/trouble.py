"""The `trouble` of a heartbeat: why the agent takes no jobs, or not all; which outcomes wait."""

from typing import Protocol

from ec2_agent.host.capacity import HostCapacity
from ec2_agent.outcomes.journal import Journal
from joblane.formats.times import rfc3339
from joblane.state.lease import NO_EGRESS, StatePool

WAITING_S = 5.0
"""An outcome that has waited for longer is named."""

MOST = 500
"""Characters."""


class StateService(Protocol):
    """What is asked of the state service's supervisor."""

    trouble: str | None
    """Why it takes no records; None if it does."""

    @property
    def pool(self) -> StatePool:
        """The connections to it."""
        ...


def describe_trouble(
    state: StateService,
    capacity: HostCapacity,
    journal: Journal,
    egress_lacks: str | None = None,
) -> str | None:
    """Describe what is wrong, in one line; None if nothing is.

    `egress_lacks` is what the host lacks for jobs with network egress.
    """
    problems = []
    if (reason := state.trouble or capacity.why) is not None:
        problems.append(f"takes no jobs: {reason}")
    if journal.waiting and journal.oldest_s >= WAITING_S:
        what = f"{journal.waiting} outcome(s) wait since {rfc3339(journal.since_ms or 0)}"
        problems.append(f"{what}: {journal.trouble or 'their messages are still held'}")
    if egress_lacks is not None:  # the last one: by the first, others judge what the agent can do
        problems.append(f"{NO_EGRESS}: {egress_lacks}")
    return "; ".join(problems)[:MOST] or None
