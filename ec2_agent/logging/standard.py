"""Events and messages of libraries, which have the same form, through Python's logging."""

import logging
import sys
from collections.abc import Mapping
from typing import Any

from ec2_agent.logging.lines import line

LOGGER = "joblane"
"""Name of the logger that events go to."""

_LOGGER = logging.getLogger(LOGGER)


def write(
    level: int, name: str, text: str, values: Mapping[str, Any], defect: BaseException | None
) -> None:
    """Write an event."""
    if not _LOGGER.isEnabledFor(level):
        return
    trace = None if defect is None else (type(defect), defect, defect.__traceback__)
    # Made here: `Logger.log` would look for the line of code that calls it, which no line has.
    record = logging.LogRecord(LOGGER, level, "", 0, text, None, trace)
    record.__dict__.update(event=name, values=values)
    _LOGGER.handle(record)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format an event, or a library's record as the event `library`."""
        return line(
            record.created,
            record.levelname.lower(),
            getattr(record, "event", "library"),
            record.getMessage(),
            getattr(record, "values", {"logger": record.name}),
            self.formatException(record.exc_info) if record.exc_info else None,
        )


def begin_log() -> None:
    """Send this process's log to standard error: libraries from `info`, events as `event` says."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    _LOGGER.setLevel(logging.DEBUG)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    # It warns of every connection above the pool's size, which is closed after use.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
