"""Running one command in a sandbox and taking what came out, for tests.

Programs in the test machine of tests/kernel import this: nothing that takes long to load.
"""

import contextlib
import functools
import os
import socket
import threading
from pathlib import Path
from typing import NamedTuple

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending, Isolation, Limits, Spec
from ec2_agent.sandbox.probe import probe

REPOSITORY = Path(__file__).parent.parent.parent
NO_LIMITS = Limits()
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")


def emulated() -> bool:
    """Say whether this is the test machine of tests/kernel, which is tens of times slower."""
    return " joblane.run=" in Path("/proc/cmdline").read_text()


def room(launcher: Launcher) -> Path:
    """Give the cgroup in which the slots of a launcher with isolation full have theirs."""
    for entry in Path(f"/proc/{launcher.pid}/fd").iterdir():  # the launcher process holds it open
        with contextlib.suppress(FileNotFoundError):  # others it opens and closes all the time
            if (path := entry.readlink()).name.startswith("joblane-"):
                return path
    raise AssertionError("the launcher holds no cgroup open")


def alive(marker: str) -> list[int]:
    """Give the processes of the host whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


class Ran(NamedTuple):
    """A job's ending and what it wrote."""

    ending: Ending
    out: bytes
    err: bytes


@functools.cache
def strongest() -> Isolation:
    """The best isolation this host gives."""
    isolation = probe().isolation
    assert isolation is not None, probe().as_json()
    return isolation


def run(launcher: Launcher, spec: Spec) -> Ran:
    """Run a job to its end, with a line that nobody listens to."""
    read_out, write_out = os.pipe()
    read_err, write_err = os.pipe()
    ours, line = socket.socketpair()
    with ours, open(read_out, "rb") as out, open(read_err, "rb") as err:  # noqa: PTH123 - pipes
        try:
            sandbox = launcher.start(spec, stdout=write_out, stderr=write_err, line=line.fileno())
        finally:
            line.close()
            os.close(write_out)
            os.close(write_err)
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(err.read()))
        reader.start()
        output = out.read()
        reader.join()
        return Ran(sandbox.wait(), output, errors[0])


def shell(launcher: Launcher, script: str, **changes: object) -> Ran:
    """Run a shell script; `changes` are fields of Spec."""
    fields = {"env": {}, "limits": NO_LIMITS, "timeout_s": 30.0, **changes}
    return run(launcher, Spec(("/bin/sh", "-c", script), **fields))  # type: ignore[arg-type]


def python(launcher: Launcher, script: str, **changes: object) -> Ran:
    """Run a Python program; `changes` are fields of Spec."""
    fields = {"env": {}, "limits": NO_LIMITS, "timeout_s": 30.0, **changes}
    return run(launcher, Spec((*PYTHON, script), **fields))  # type: ignore[arg-type]
