"""A job's own work directory, as the launcher orders it from a slot (see work.py for the slot).

The stage is a directory of the host with the job's input files and `plan`, which says where each
belongs: a JSON list of `[path, mode, name]`, as `["src/run.sh", "0755", "0"]`. The path is below
the work directory, the mode is octal, the name is that of a file in the stage.
"""

import json
import marshal
import os
import socket
from dataclasses import dataclass

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.model import SandboxRefused, Spec, refusal

PLAN = "plan"
"""Name of the plan in the stage."""

_HIGHEST_MODE = 0o777


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What a slot is told about the work directory."""

    disk: int | None
    stage: int | None
    plan: tuple[tuple[bytes, int, bytes], ...]
    keep: bool

    def send(self, sock: socket.socket) -> None:
        """Send it to a slot that waits for it; raises OSError if the slot has ended."""
        message = (wire.WORK, self.disk is not None, self.stage is not None, self.keep)
        fds = () if self.disk is None else (self.disk,)
        if self.stage is None:
            wire.send(sock, message, fds)
            return
        plan = wire.in_memory(marshal.dumps(self.plan))
        try:
            wire.send(sock, message, (*fds, self.stage, plan))
        finally:
            os.close(plan)


def order(spec: Spec, disk: int | None) -> WorkOrder | None:
    """Return what the job wants of its work directory; None if that is the usual one, in memory.

    `disk` is the descriptor of a detached mount. Raises SandboxRefused if the plan of its stage
    cannot be read, or is not one.
    """
    if spec.stage is None and disk is None and not spec.keep_work:
        return None
    plan = () if spec.stage is None else read_plan(spec.stage)
    return WorkOrder(disk, spec.stage, plan, spec.keep_work)


def read_plan(stage: int) -> tuple[tuple[bytes, int, bytes], ...]:
    """Read the plan of a stage; raises SandboxRefused unless every path stays below /work."""
    try:
        with open(
            PLAN, "rb", opener=lambda path, flags: os.open(path, flags, dir_fd=stage)
        ) as file:
            entries = json.load(file)
        return tuple(_entry(*entry) for entry in entries)
    except OSError as failed:
        raise refusal(failed.errno, f"the plan of the input files: {failed.strerror}") from failed
    except (AttributeError, TypeError, ValueError) as wrong:
        raise SandboxRefused(f"the plan of the input files is invalid: {wrong}") from wrong


def _entry(path: str, mode: str, name: str) -> tuple[bytes, int, bytes]:
    """Check one entry again: a wrong path would be written to by a privileged process."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not a relative path without empty, . and .. components")
    if not name.isalnum():
        raise ValueError(f"{name!r} is not the name of a file in the stage")
    bits = int(mode, 8)
    if not 0 <= bits <= _HIGHEST_MODE:
        raise ValueError(f"mode {mode!r} has other bits than those of permissions")
    return path.encode(), bits, name.encode()
