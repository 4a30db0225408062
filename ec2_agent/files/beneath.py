"""Opening what a job has left in its work directory, by openat2(2).

Every path is resolved below one descriptor, with no link followed and no mount crossed, whatever
the path is when the kernel resolves it: a check beforehand could be outrun.
"""

import ctypes
import os
import stat

_OPENAT2 = 437
"""Its number on every architecture."""

_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH

# CDLL releases the interpreter's lock during the call: the agent has an event loop.
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_long)


class NotRegular(OSError):
    """What is opened as a file is none."""


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open a relative path below a directory. Raises OSError.

    ELOOP: a part of the path is a link. EXDEV: it leaves the directory, or the file system.
    """
    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0, _RESOLVE)
    fd: int = _syscall(
        _OPENAT2, directory, os.fsencode(path), ctypes.addressof(how), ctypes.sizeof(how)
    )
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def open_directory(directory: int, path: str) -> int:
    """Open a directory for reading; raises OSError."""
    return open_beneath(directory, path, os.O_RDONLY | os.O_DIRECTORY)


def open_regular(directory: int, path: str) -> int:
    """Open a regular file for reading. Raises NotRegular for anything else, and OSError.

    First without opening its content (O_PATH): an open of a FIFO would wait, and one of a device
    would have effects.
    """
    handle = open_beneath(directory, path, os.O_PATH)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotRegular(0, "not a regular file", path)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(handle)
