"""System calls for disks that Python's `os` does not have.

Every function raises OSError with the kernel's errno. Numbers and structures come from the
kernel's headers: include/uapi/linux/{loop,mount,fs,dqblk_xfs,quota}.h; these system calls have one
number on every architecture. Calls release the interpreter's lock, unlike those of the sandbox.
"""

import ctypes
import fcntl
import os
import struct
from typing import NamedTuple

_FSOPEN, _FSCONFIG, _FSMOUNT, _QUOTACTL_FD = 430, 431, 432, 443
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6
_CLOEXEC = 1
_MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 0x2, 0x4

_LOOP_CTL_GET_FREE, _LOOP_CONFIGURE = 0x4C82, 0x4C0A
_LO_FLAGS_AUTOCLEAR, _LO_FLAGS_DIRECT_IO = 4, 16
_LOOP_CONFIG_SIZE, _LOOP_FLAGS_AT = 304, 60
_BLOCK = 4096

_FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
_FSXATTR = struct.Struct("=5I8x")
_XFLAG_PROJINHERIT = 0x200

_PRJQUOTA = 2
_Q_XGETQUOTA, _Q_XSETQLIM, _Q_XGETQSTAT = 0x5803, 0x5804, 0x5805
_DQUOT = struct.Struct("=bbHI6Q56x")
"""version, flags, fields set, project, limits of blocks (hard, soft) and inodes (hard, soft), and
what is used of both; then times and what only some file systems have."""
_DQUOT_VERSION, _DQUOT_PROJECT, _BOTH_HARD = 1, 2, 0b1010
_QSTAT_SIZE, _QSTAT_FLAGS = 256, struct.Struct("=2xH")
_PROJECT_QUOTA = 0b110000
"""Project quotas are counted and enforced."""
QUOTA_BLOCK = 512

_libc = ctypes.CDLL(None, use_errno=True)
_int, _long, _char_p, _void_p = ctypes.c_int, ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p


def _call(*types: type) -> "ctypes._NamedFuncPointer":
    function = _libc["syscall"]
    function.restype = _long
    function.argtypes = (_long, *types)
    return function


_fsopen = _call(_char_p, _long)
_fsconfig = _call(_long, _long, _char_p, _char_p, _long)
_fsmount = _call(_long, _long, _long)
_quotactl = _call(_long, _long, _long, _void_p)
_fallocate = _libc["fallocate"]
_fallocate.restype = _int
_fallocate.argtypes = (_int, _int, ctypes.c_int64, ctypes.c_int64)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def allocate(fd: int, size: int) -> None:
    """Reserve the space of a file, from its start; a file system that cannot is an error."""
    _check(_fallocate(fd, 0, 0, size), "fallocate")


def mount_detached(kind: str, source: str, flags: tuple[str, ...]) -> int:
    """Mount a file system nowhere: returns a descriptor, and the mount ends with the last one."""
    context = _check(_fsopen(_FSOPEN, kind.encode(), _CLOEXEC), f"fsopen {kind}")
    try:
        for key, value in (("source", source), *((flag, None) for flag in flags)):
            set_ = _FSCONFIG_SET_FLAG if value is None else _FSCONFIG_SET_STRING
            text = None if value is None else value.encode()
            _check(_fsconfig(_FSCONFIG, context, set_, key.encode(), text, 0), f"fsconfig {key}")
        create = _fsconfig(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        _check(create, f"mount {kind} of {source}")
        attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
        return _check(_fsmount(_FSMOUNT, context, _CLOEXEC, attributes), "fsmount")
    finally:
        os.close(context)


def free_loop_device() -> int:
    """Return the number of a loop device that is free now; another process may take it."""
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
    finally:
        os.close(control)


def configure_loop(device: int, file: int) -> None:
    """Make an open loop device the file's; it is released when nobody has it open any more."""
    config = bytearray(_LOOP_CONFIG_SIZE)
    struct.pack_into("=II", config, 0, file, _BLOCK)
    struct.pack_into("=I", config, _LOOP_FLAGS_AT, _LO_FLAGS_AUTOCLEAR | _LO_FLAGS_DIRECT_IO)
    fcntl.ioctl(device, _LOOP_CONFIGURE, config)


def set_project(directory: int, project: int) -> None:
    """Give a directory to a project, and all that is made in it from now on."""
    own = _FSXATTR.unpack(fcntl.ioctl(directory, _FS_IOC_FSGETXATTR, bytes(_FSXATTR.size)))
    changed = _FSXATTR.pack(own[0] | _XFLAG_PROJINHERIT, own[1], own[2], project, own[4])
    fcntl.ioctl(directory, _FS_IOC_FSSETXATTR, changed)


def _quota(command: int, fd: int, project: int, buffer: "ctypes.Array[ctypes.c_char]") -> None:
    both = command << 8 | _PRJQUOTA
    done = _quotactl(_QUOTACTL_FD, fd, both, project, ctypes.addressof(buffer))
    _check(done, "quotactl")


def enforces_project_quota(fd: int) -> bool:
    """Whether the file system of this descriptor enforces project quotas."""
    state = ctypes.create_string_buffer(b"\1", _QSTAT_SIZE)
    try:
        _quota(_Q_XGETQSTAT, fd, 0, state)
    except OSError:
        return False
    flags: int = _QSTAT_FLAGS.unpack_from(state)[0]
    return flags & _PROJECT_QUOTA == _PROJECT_QUOTA


class ProjectUse(NamedTuple):
    """Limit and use of a project, in bytes; a limit of 0 is none."""

    limit: int
    used: int


def project_use(fd: int, project: int) -> ProjectUse:
    """Read what a project may use, and what it uses."""
    buffer = ctypes.create_string_buffer(_DQUOT.size)
    try:
        _quota(_Q_XGETQUOTA, fd, project, buffer)
    except FileNotFoundError:  # it never used anything
        return ProjectUse(0, 0)
    values = _DQUOT.unpack_from(buffer)
    return ProjectUse(values[4] * QUOTA_BLOCK, values[8] * QUOTA_BLOCK)


def limit_project(fd: int, project: int, size: int, inodes: int) -> None:
    """Limit the bytes and the inodes of a project; 0 for both ends the limit."""
    head = (_DQUOT_VERSION, _DQUOT_PROJECT, _BOTH_HARD, project)
    values = _DQUOT.pack(*head, size // QUOTA_BLOCK, 0, inodes, 0, 0, 0)
    _quota(_Q_XSETQLIM, fd, project, ctypes.create_string_buffer(values, _DQUOT.size))
