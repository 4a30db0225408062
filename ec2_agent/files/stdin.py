"""Descriptors for the standard input of jobs, which cannot be made ones for writing.

A job could write to a file of its own user that it was given for reading, by opening it again
through /proc/self/fd, or by its mode. Where jobs have users of their own, a file of the cache is
root's, and is read where it is. Where they have the agent's user, they get a copy.
"""

import fcntl
import os
from pathlib import Path

from ec2_agent.files.transfers import Proceed, Stopped

_COPY_BYTES = 64 << 20
"""Copied between two looks at whether the attempt is to go on."""


def open_text(text: str) -> int:
    """Return a descriptor of a file in memory that can not be changed any more."""
    memory = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(text.encode())
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        return _reopen(memory)
    finally:
        os.close(memory)


def open_file(source: int, directory: Path, proceed: Proceed) -> int:
    """Return a descriptor of a copy of a file, on the disk of `directory` and without a name.

    Raises Stopped and OSError.
    """
    copy = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o400)
    try:
        while _copy(source, copy):
            if not proceed():
                raise Stopped
        return _reopen(copy)
    finally:
        os.close(copy)


def let_jobs_open(source: int) -> None:
    """Let a job with another user open a file of the cache that is its standard input, by name.

    Nobody else can: the directories in which it lies are closed to the host's other users, and
    jobs have no path to it but `/proc/self/fd` of the job that was given it.
    """
    os.fchmod(source, 0o444)


def _copy(source: int, target: int) -> int:
    try:
        return os.copy_file_range(source, target, _COPY_BYTES)
    except OSError:  # a file system that cannot
        return os.sendfile(target, source, None, _COPY_BYTES)


def _reopen(fd: int) -> int:
    """Open a file again, read-only and at its beginning."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
