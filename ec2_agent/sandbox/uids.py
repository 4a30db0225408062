"""Host uids for slots: unique per job on a host, even among different launchers."""

import fcntl
import os
from pathlib import Path

from ec2_agent.sandbox.model import SandboxRefused

FIRST, EACH, BLOCKS = 200_000, 1000, 64
"""Block n holds the 1000 uids from 200000 + 1000 n; 64 launchers can run on a host."""


def locks_folder() -> Path:
    """Return the directory of the locks: one for the host, or one for a user without privileges."""
    uid = os.geteuid()
    if uid == 0:
        return Path("/run/joblane/uids")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/joblane-{uid}") / "joblane/uids"  # noqa: S108 - made 0700 and checked


def take_block() -> tuple[int, int]:
    """Lock a block of uids; returns (lock descriptor, block).

    The block also names the launcher's cgroup, links and rules. The agent, the launcher process,
    every slot and the shim of every job hold the descriptor, so the kernel frees the block when
    the last of them has exited.
    """
    folder = locks_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise SandboxRefused(f"{folder} belongs to another user; remove it")
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
