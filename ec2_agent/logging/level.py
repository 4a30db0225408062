"""The level of the agent's log, which an operator may change for a while."""

import asyncio
from collections.abc import Callable
from typing import Final

from ec2_agent.logging import events
from ec2_agent.logging.event import DEBUG, INFO, WARNING, write_from
from joblane.deployment.log_level import DEFAULT_LEVEL, LogLevel

_LEVELS: Final = {"debug": DEBUG, "info": INFO, "warning": WARNING}


class LevelSwitch:
    """Sets the level of this process's events, and sets it back by itself.

    The next process begins with the level `info`: a wish is for minutes, and not stored.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns Unix seconds."""
        self._clock = clock
        self._back: asyncio.TimerHandle | None = None

    def set(self, level: LogLevel, until_ms: int) -> None:
        """Write events from a level on until a time in Unix milliseconds; needs a running loop.

        What was wished before is replaced. A time that has passed sets nothing: the command was
        delivered again.
        """
        left_s = until_ms / 1000 - self._clock()
        if left_s <= 0:
            return
        self.close()
        write_from(_LEVELS[level])
        events.log_level_set(level, round(left_s))
        self._back = asyncio.get_running_loop().call_later(left_s, self._set_back)

    def close(self) -> None:
        """Have the level `info` again, and no timer."""
        if self._back is not None:
            self._back.cancel()
            self._back = None
        write_from(_LEVELS[DEFAULT_LEVEL])

    def _set_back(self) -> None:
        self.close()
        events.log_level_back()
