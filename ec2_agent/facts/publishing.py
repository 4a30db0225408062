"""Writes the facts of this agent to the table of agents.

0 s     written
7 s     a fact changes
60 s    written: at most once in CHANGE_S
300 s   written: at least once in RENEW_S; a reader takes them as valid for `KEPT_S`
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.facts.known import KnownFacts
from ec2_agent.logging import events
from joblane.aws.fleet.facts import FactStore

CHANGE_S = 60.0
"""Shortest time between two writes: each is a write unit."""

RENEW_S = 240.0
"""Longest time between two writes: a minute before readers hide the facts."""

FIRST_S = 5.0
"""How long the first write waits for fact commands that have not ended."""

AGAIN_S = 20.0
"""Pause after a write that failed."""


@dataclass
class FactPublisher:
    """Publishes the facts of one agent."""

    agent: str
    store: FactStore
    known: KnownFacts
    clock: Callable[[], float]
    """Unix seconds."""

    def __post_init__(self) -> None:
        self._writing = asyncio.Lock()
        self._ended = False

    async def keep(self) -> None:
        """Write when a fact has changed, and often enough to keep them valid; until cancelled."""
        await _wait(self.known.complete(), FIRST_S)
        failed = False
        while True:
            try:
                await self._write()
            except AWS_ERRORS as error:
                if not failed:
                    events.facts_not_written(error)
                failed = True
                await asyncio.sleep(AGAIN_S)
                continue
            failed = False
            await asyncio.sleep(CHANGE_S)
            await _wait(self.known.changed.wait(), RENEW_S - CHANGE_S)

    async def end(self) -> None:
        """Delete the facts: this agent leaves. They are not written again."""
        async with self._writing:  # a write under way would come after the deletion
            self._ended = True
            try:
                await in_thread(lambda: self.store.delete(self.agent), "goodbye")
            except AWS_ERRORS as error:
                events.goodbye_failed(error)

    async def _write(self) -> None:
        async with self._writing:
            if self._ended:
                return
            self.known.changed.clear()
            facts, now_s = dict(self.known.values), int(self.clock())
            try:
                await in_thread(lambda: self.store.put(self.agent, facts, now_s), "facts")
            except BaseException:
                self.known.changed.set()
                raise


async def _wait(event: Coroutine[Any, Any, object], longest_s: float) -> None:
    """Wait for something, `longest_s` at most."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event, longest_s)
