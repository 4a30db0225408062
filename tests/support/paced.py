"""Starts agents that send heartbeats ten times as often as usual."""

import sys
from collections.abc import Sequence

from scripts.local.agent import start_agent
from scripts.local.cloud import DEPLOYMENT, Cloud
from scripts.local.processes import Process
from tests.support import paced_agent

PACE = ("1", "300", "60")
"""Heartbeat, lease and margin, seconds."""


def start_paced(  # noqa: PLR0913 - all that tells one agent from another
    cloud: Cloud,
    name: str,
    *,
    threads: int = 4,
    endpoint: str | None = None,
    journal_room: int | None = None,
    options: Sequence[str] = (),
) -> Process:
    """Start an agent and return when it is listed; `endpoint` None means MiniStack itself."""
    room = () if journal_room is None else ("--journal-room", str(journal_room))
    agent = start_agent(
        cloud.ministack,
        cloud.run_dir,
        deployment=DEPLOYMENT,
        name=name,
        threads=threads,
        isolation=None,
        endpoint=endpoint,
        options=options,
        program=(sys.executable, paced_agent.__file__, *room, *PACE),
    )
    cloud.add_agent(name, agent)
    return agent
