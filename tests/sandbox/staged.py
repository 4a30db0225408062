"""Stages of input files, and work directories that outlive their jobs, for tests.

As running.py: nothing that takes long to load.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from ec2_agent.sandbox.output_pipe import make_output_pipe
from tests.sandbox.running import NO_LIMITS, Ran


def stdin_of(data: bytes) -> int:
    """Give a descriptor for reading only, as the agent does."""
    memory = os.memfd_create("stdin")
    os.write(memory, data)
    own = os.open(f"/proc/self/fd/{memory}", os.O_RDONLY)
    os.close(memory)
    return own


class Stage:
    """A stage, which is filled before it is opened."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.plan: list[list[str]] = []

    def add(self, path: str, content: bytes, mode: str = "0644") -> None:
        """Stage one file."""
        name = str(len(self.plan))
        (self.place / name).write_bytes(content)
        (self.place / name).chmod(0o400)  # as in the agent's cache
        self.plan.append([path, mode, name])

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Write the plan, and give the descriptor."""
        (self.place / "plan").write_text(json.dumps(self.plan))
        fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)


def run_and_keep(launcher: Launcher, script: str, **changes: object) -> tuple[Ran, int]:
    """Run a shell script to its end; what it wrote, and its work directory."""
    read, write = make_output_pipe()
    fields = {"env": {}, "limits": NO_LIMITS, "keep_work": True, **changes}
    spec = Spec(("/bin/sh", "-c", script), **fields)  # type: ignore[arg-type]
    sandbox = launcher.start(spec, stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        output = said.read()
    ending = sandbox.wait()
    assert sandbox.work is not None
    return Ran(ending, output, b""), sandbox.work


def content(work: int, path: str) -> bytes:
    """Read a file of a work directory."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags, dir_fd=work)) as file:
        return file.read()
