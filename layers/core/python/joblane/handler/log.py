"""The logger of a job. A module of its own, because `logging` takes milliseconds to import."""

import logging
import sys

from joblane.handler.levels import mark


class _Marked(logging.Formatter):
    """Marks what it formats with the record's level."""

    def format(self, record: logging.LogRecord) -> str:
        return mark(super().format(record), record.levelno)


def make_logger(*, marked: bool) -> logging.Logger:
    """Make the logger: each record is its level and its message, on stderr."""
    logger = logging.getLogger("joblane.job")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((_Marked if marked else logging.Formatter)("%(levelname)s %(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
