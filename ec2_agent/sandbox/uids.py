"""Host uids for slots: unique per job on a host, even among different launchers."""

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from ec2_agent.sandbox.model import SandboxRefused

FIRST, EACH, BLOCKS = 200_000, 1000, 64
"""Block n holds the 1000 uids from 200000 + 1000 n; 64 launchers can run on a host."""


FACTS = FIRST - 1
"""Of fact commands with the host's view, of all agents of a host."""


def locks_folder() -> Path:
    """Return the directory of the locks: one for the host, or one for a user without privileges."""
    above, place = _place()
    return above / place / "uids"


def _place() -> tuple[Path, str]:
    """The directory that is there, and which one below it is this user's."""
    uid = os.geteuid()
    own = "/run" if uid == 0 else os.environ.get("XDG_RUNTIME_DIR")
    return (Path(own), "joblane") if own else (Path("/tmp"), f"joblane-{uid}")  # noqa: S108 - checked


def make_own(folder: Path, above: Path) -> None:
    """Make a directory below `above`, which may be anybody's; nobody else may write on the way.

    Raises SandboxRefused for a link or a directory of another user, and OSError.
    """
    for place in (*reversed(folder.relative_to(above).parents[:-1]), folder.relative_to(above)):
        path = above / place
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise SandboxRefused(f"{path} is no directory; remove it")
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SandboxRefused(f"{path} may be written by another user; remove it")


def take_block() -> tuple[int, int]:
    """Lock a block of uids; returns (lock descriptor, block).

    The block also names the launcher's cgroup, links and rules. The agent, the launcher process,
    every slot and the shim of every job hold the descriptor, so the kernel frees the block when
    the last of them has exited.
    """
    folder = locks_folder()
    try:
        make_own(folder, _place()[0])
        for block in range(BLOCKS):
            lock = try_block(block)
            if lock is not None:
                return lock, block
    except OSError as failed:
        raise SandboxRefused(f"the uid locks in {folder} cannot be used: {failed}") from failed
    raise SandboxRefused(
        f"all {BLOCKS} uid blocks are in use; see which processes lock the files in {folder}"
    )


def try_block(block: int) -> int | None:
    """Lock one block; returns the lock's descriptor, None if it is locked. Raises OSError."""
    lock = os.open(locks_folder() / str(block), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def uids_of(block: int) -> range:
    """Return the host uids of a block."""
    return range(FIRST + block * EACH, FIRST + (block + 1) * EACH)
