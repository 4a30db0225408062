"""Waits for a job's deadline, by the agent's clock."""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_S = 5.0
"""Longest sleep: the clock may be set by AWS's time, and the event loop's timers stand still while
the machine is suspended."""


async def wait_until_passed(
    deadline_ms: int,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Return once `clock`, in Unix seconds, has reached a deadline in Unix milliseconds."""
    while (left_s := deadline_ms / 1000 - clock()) > 0:
        await sleep(min(left_s, LOOK_S))
