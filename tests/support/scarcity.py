"""Descriptors and disks that run out, for real."""

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ec2_agent.host.capacity import descriptors_left


@contextlib.contextmanager
def soft_limit(most: int) -> Iterator[None]:
    """Let this process open only so many descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def only(left: int) -> Iterator[None]:
    """Leave this process so many descriptors."""
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - no files
    gaps = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest + 1 - count_open())]
    try:
        with soft_limit(count_open() + left):
            assert left == descriptors_left()
            yield
    finally:
        for fd in gaps:
            os.close(fd)


def count_open() -> int:
    """How many descriptors this process has."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - descriptors_left()


@contextlib.contextmanager
def disk(path: Path, options: str) -> Iterator[None]:
    """Have a small disk there; only root may."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> None:
    """Leave not a byte."""
    with path.open("wb") as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    os.write(file.fileno(), bytes(size))
            except OSError as full:
                if full.errno != errno.ENOSPC:
                    raise
