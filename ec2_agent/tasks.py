"""Tasks of the event loop that somebody waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ec2_agent.logging import events


class Tasks:
    """Tasks that run now; the event loop itself keeps only weak references to them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __bool__(self) -> bool:
        return bool(self._running)

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine beside the others."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            events.task_broke(type(error).__name__, error)

    async def done(self) -> None:
        """Wait until none runs, those started meanwhile as well."""
        while self._running:
            await asyncio.wait(self._running)
