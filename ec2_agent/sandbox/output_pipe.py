"""Pipes for what jobs write, which jobs can open by name."""

import os

MODE = 0o666
"""A pipe that root makes is root's, with mode 0600, and a job has another user: it could write to
the descriptor that it has, and not open `/dev/stdout`. This opens the pipe to nobody else: its only
names are in /proc/PID/fd of the processes that hold it, which root may open, and processes with the
job's user, which only the job has. For reading too, as in a shell, whose user owns the pipe: some
programs open their log both ways. What a job reads there, it has written itself."""


def make_output_pipe() -> tuple[int, int]:
    """Make a pipe; returns the end to read, and the one for the job."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.fchmod(writer, MODE)
    return reader, writer
