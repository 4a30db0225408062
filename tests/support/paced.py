"""Starts agents that send heartbeats ten times as often as usual."""

import sys
from collections.abc import Sequence

from scripts.local.cloud import Cloud
from scripts.local.processes import Process
from tests.support import paced_agent

PACE = ("1", "300", "60")
"""Heartbeat, lease and margin, seconds."""


def start_paced(
    cloud: Cloud,
    name: str,
    *,
    threads: int = 4,
    endpoint: str | None = None,
    journal_room: int | None = None,
    memory_mb: int | None = None,
    settings_s: float | None = None,
    options: Sequence[str] = (),
) -> Process:
    """Start an agent and return when it is listed; `endpoint` None means MiniStack itself."""
    memory = () if memory_mb is None else ("--memory-mb", str(memory_mb))
    read = () if settings_s is None else ("--settings-s", str(settings_s))
    room = () if journal_room is None else ("--journal-room", str(journal_room))
    return cloud.start_agent(
        name,
        threads=threads,
        endpoint=endpoint,
        options=options,
        # -P: modules beside it, such as types.py, are not those of the standard library.
        program=(sys.executable, "-P", paced_agent.__file__, *room, *memory, *read, *PACE),
    )
