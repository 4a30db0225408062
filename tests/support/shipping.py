"""A job whose output the real shipper ships: its directory, and its shim."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ec2_agent.shim import files
from ec2_agent.shim.log import Writer
from tests.support.jobs import JOB, named

STREAM = f"acme/{JOB}/1"
OURS = named(JOB)


async def directly(call: Callable[[], Any], _name: str) -> Any:
    """Make a call in place of a thread, for which virtual time would not wait."""
    return call()


@contextmanager
def folder() -> Iterator[Path]:
    """A job's directory, in memory."""
    path = Path(tempfile.mkdtemp(prefix="joblane-ship-", dir="/dev/shm"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Shim:
    """Writes the log as a shim does, and says when it has grown."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path / files.LOG, os.O_WRONLY | os.O_CREAT, 0o600)
        self.writer = Writer(self._fd)
        self.grown = asyncio.Event()
        self._wanted: int | None = None

    def want(self, size: int) -> None:
        """Set `grown` when the log is longer than this."""
        self._wanted = size
        self._tell()

    def write(self, data: bytes) -> None:
        """Let the job write."""
        self.writer.write("stdout", data, 1000)
        self._tell()

    def close(self) -> None:
        """Close the log."""
        os.close(self._fd)

    def _tell(self) -> None:
        if self._wanted is not None and self.writer.size > self._wanted:
            self._wanted = None
            self.grown.set()
