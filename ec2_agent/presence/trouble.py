"""The `trouble` of a heartbeat: why the agent takes no jobs, and which outcomes wait."""

from ec2_agent.host.capacity import Capacity
from ec2_agent.outcomes.journal import Journal
from ec2_agent.state.supervisor import StateSupervisor
from joblane.formats.times import rfc3339

WAITING_S = 5.0
"""An outcome that has waited for longer is named."""

MOST = 500
"""Characters."""


def describe_trouble(
    supervisor: StateSupervisor, capacity: Capacity, journal: Journal
) -> str | None:
    """Describe what is wrong, in one line; None if nothing is."""
    problems = []
    if (reason := supervisor.trouble or capacity.why) is not None:
        problems.append(f"takes no jobs: {reason}")
    if journal.waiting and journal.oldest_s >= WAITING_S:
        what = f"{journal.waiting} outcome(s) wait since {rfc3339(journal.since_ms or 0)}"
        problems.append(f"{what}: {journal.trouble or 'their messages are still held'}")
    return "; ".join(problems)[:MOST] or None
