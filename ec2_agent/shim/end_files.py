"""The files that a shim writes when its job has ended: a large result, and the exit record."""

from ec2_agent.shim import files
from joblane.state.result import INLINE_RESULT_BYTES

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ec2_agent.sandbox.model import Ending


class EndFiles:
    """How one job ended, and its files."""

    def __init__(self, directory: int, ending: "Ending", result: str | None) -> None:
        """`directory` is the job's, open; `result` is the result that the job gave, as JSON."""
        self._directory = directory
        self._result: bytes | None = None
        if result is not None and len(data := result.encode()) > INLINE_RESULT_BYTES:
            self._result, result = data, None
        self.record: dict[str, Any] = ending.encode()
        """The exit record."""
        self.record |= {"result": result, "result_file": self._result is not None}

    def write_result(self) -> bool:
        """Write a result that is too long for the exit record, before the end is reported.

        Returns whether it is on the disk, or not needed; so does `write_exit`.
        """
        data = self._result
        return data is None or _try_write(
            lambda: files.write_bytes(self._directory, files.RESULT, data, durable=True)
        )

    def write_exit(self) -> bool:
        """Write the exit record."""
        return _try_write(
            lambda: files.write(self._directory, files.EXIT, self.record, durable=True)
        )


def _try_write(write: "Callable[[], None]") -> bool:
    """Whether a file was written, or is not needed any more."""
    try:
        write()
    except FileNotFoundError:
        return True  # the agent has removed the directory: it has the outcome
    except OSError:
        return False
    return True
