"""Levels of log records."""

from typing import Literal, get_args

Level = Literal["debug", "info", "warning", "error", "critical"]
"""The lowest first."""

LEVELS: tuple[Level, ...] = get_args(Level)


def reaches(level: Level | None, least: Level) -> bool:
    """Whether a level is `least` or above; output without a level reaches none."""
    return level is not None and LEVELS.index(level) >= LEVELS.index(least)
