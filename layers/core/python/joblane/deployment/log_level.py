"""Levels of an agent's log."""

from typing import Final, Literal

LogLevel = Literal["debug", "info", "warning"]
"""Events from this level on are written; errors always are."""

DEFAULT_LEVEL: Final[LogLevel] = "info"

MAX_LEVEL_S: Final = 86_400
"""Longest time for which a level is set, in seconds; then it goes back by itself."""
