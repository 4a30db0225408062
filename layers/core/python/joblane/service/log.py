"""The log that services write to; the functions pass Powertools' `Logger`."""

from typing import Any, Protocol


class Log(Protocol):
    """A structured logger: keyword arguments become fields of the entry."""

    def info(self, msg: object, **fields: Any) -> None:
        """Log normal operation."""

    def warning(self, msg: object, **fields: Any) -> None:
        """Log an event that an operator should look at."""

    def error(self, msg: object, **fields: Any) -> None:
        """Log a failure."""

    def exception(self, msg: object, **fields: Any) -> None:
        """Log a failure with the traceback of the exception being handled."""
