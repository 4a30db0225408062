"""Empties a directory that a job has filled."""

import os
import stat

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def empty(top: int) -> None:
    """Remove all that is in the directory of this descriptor; raises OSError.

    No path of the job is followed, and a tree of any depth takes one more descriptor: directories
    that are found in a directory are moved to the top before it is removed. Every directory is
    made root's first: in a sticky one of another user root would need CAP_FOWNER.
    """
    number = 0
    os.fchown(top, 0, 0)
    while names := os.listdir(top):
        for name in names:
            if not _is_directory(name, top):
                os.unlink(name, dir_fd=top)
                continue
            inner = os.open(name, _DIRECTORY, dir_fd=top)
            try:
                os.fchown(inner, 0, 0)
                for below in os.listdir(inner):  # noqa: PTH208 - of a descriptor
                    if not _is_directory(below, inner):
                        os.unlink(below, dir_fd=inner)
                        continue
                    number = _move_up(below, inner, top, number)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _move_up(name: str, parent: int, top: int, number: int) -> int:
    """Move a directory to the top under a name that nothing has there; returns the next number."""
    while True:
        number += 1
        new = f"moved-{number}"
        try:
            os.stat(new, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=parent, dst_dir_fd=top)
            return number
