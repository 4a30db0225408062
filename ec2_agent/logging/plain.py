"""Writes events to standard error, without Python's logging."""

import contextlib
import os
import sys
import time

from ec2_agent.logging.event import ERROR, INFO, WARNING, write_with
from ec2_agent.logging.lines import line

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LEVELS = {INFO: "info", WARNING: "warning", ERROR: "error"}


def write(
    level: int, name: str, text: str, values: "Mapping[str, Any]", defect: BaseException | None
) -> None:
    """Write an event to standard error; one that cannot be written is lost."""
    trace = None
    if defect is not None:
        import traceback  # for a bug only

        trace = "".join(traceback.format_exception(defect)).rstrip("\n")
    found = line(time.time(), _LEVELS[level], name, text, values, trace)
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), found.encode() + b"\n")


def begin_log() -> None:
    """Send this process's events to standard error."""
    write_with(write)
