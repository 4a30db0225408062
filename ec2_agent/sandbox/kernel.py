"""System calls of the sandbox that Python's `os` does not have.

Every function raises OSError with the kernel's errno. Numbers come from the kernel's headers:
include/uapi/linux/{sched,mount,capability,prctl,seccomp,close_range}.h; system calls newer
than 2019 have one number on every architecture.

The library is opened as PyDLL, so that calls do not release the interpreter's lock: the process
is single-threaded, and a child of `clone3` then holds the lock.
"""

import ctypes
import os
import struct

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_INTO_CGROUP = 0x200000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 0x1, 0x2, 0x4, 0x8

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL = 0, 1, 5
CAP_SETGID, CAP_SETUID, CAP_SETPCAP = 6, 7, 8
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21

OOM_SCORE = 500
"""Of what the agent runs for others: a host that runs out of memory loses that first."""

_MACHINE = os.uname().machine
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(_MACHINE, -1)
_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(_MACHINE, -1)
_OPEN_TREE, _MOVE_MOUNT, _CLONE3, _CLOSE_RANGE, _MOUNT_SETATTR = 428, 429, 435, 436, 442

PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_CAPBSET_DROP = 4, 8, 24
PR_SET_NO_NEW_PRIVS = 38
AT_FDCWD = -100
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_SFD_NONBLOCK, _SFD_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_SIGCHLD = 17
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION_3 = 0x20080522
LAST_UINT = 2**32 - 1

_libc = ctypes.PyDLL(None, use_errno=True)
_char_p, _int, _long = ctypes.c_char_p, ctypes.c_int, ctypes.c_long
_ulong, _void_p = ctypes.c_ulong, ctypes.c_void_p


def _prototype(name: str, *argtypes: type) -> "ctypes._NamedFuncPointer":
    function = _libc[name]
    function.argtypes = argtypes
    function.restype = _long if name == "syscall" else _int
    return function


_mount = _prototype("mount", _char_p, _char_p, _char_p, _ulong, _char_p)
_umount2 = _prototype("umount2", _char_p, _int)
_unshare = _prototype("unshare", _int)
_prctl = _prototype("prctl", _int, _ulong, _ulong, _ulong, _ulong)
_capset = _prototype("capset", _char_p, _char_p)
_madvise = _prototype("madvise", _void_p, ctypes.c_size_t, _int)
_signalfd = _prototype("signalfd", _int, _void_p, _int)
_plain = _prototype("syscall", _long, _long, _long, _long, _long, _long)
_path1 = _prototype("syscall", _long, _long, _char_p, _long, _long, _long)
_paths = _prototype("syscall", _long, _char_p, _char_p)
_move = _prototype("syscall", _long, _long, _char_p, _long, _char_p, _long)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


_clone_args = (ctypes.c_uint64 * 11)()


def clone_arguments(flags: int, cgroup: int | None) -> tuple[int, int]:
    """Return the address and the size of clone3's arguments, until the next call."""
    _clone_args[0] = flags if cgroup is None else flags | CLONE_INTO_CGROUP
    _clone_args[4] = _SIGCHLD
    _clone_args[10] = 0 if cgroup is None else cgroup
    return ctypes.addressof(_clone_args), ctypes.sizeof(_clone_args)


def clone3(flags: int, cgroup: int | None) -> int:
    """Fork into new namespaces, and into `cgroup` (a directory descriptor) when there is one.

    Returns the pid in the parent and 0 in the child.
    """
    return _check(_plain(_CLONE3, *clone_arguments(flags, cgroup), 0, 0, 0), "clone3")


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    if _unshare(flags) < 0:
        _check(-1, f"unshare {flags:#x}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system, or change a mount when `flags` say so."""
    texts = os.fsencode(source), os.fsencode(target), kind.encode()
    _check(_mount(*texts, flags, os.fsencode(data)), f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    """Detach a mount lazily: open files stay open."""
    _check(_umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def open_tree(source: str, *, submounts: bool = True) -> int:
    """Take a detached copy of a mount, with or without the mounts below it."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if submounts else 0)
    tree = _path1(_OPEN_TREE, AT_FDCWD, os.fsencode(source), flags, 0, 0)
    return _check(tree, f"open_tree {source}")


def set_mount_attributes(tree: int, attributes: int) -> None:
    """Add attributes (ATTR_*) to a mount and all mounts below it; none is ever removed."""
    value = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    done = _path1(_MOUNT_SETATTR, tree, b"", flags, ctypes.addressof(value), 32)
    _check(done, "mount_setattr")


def attach(tree: int, target: str) -> None:
    """Put a detached mount at `target`."""
    path = os.fsencode(target)
    done = _move(_MOVE_MOUNT, tree, b"", AT_FDCWD, path, _MOVE_MOUNT_F_EMPTY_PATH)
    _check(done, f"move_mount to {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root` the root and unmount the old one.

    Both arguments of pivot_root(2) are the same directory: the old root then lies stacked on
    the new one, needs no place in it, and is unmounted from there.
    """
    os.chdir(new_root)
    _check(_paths(_PIVOT_ROOT, b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def advise(start: int, size: int, advice: int) -> None:
    """Tell the kernel how pages of this process are used (madvise(2))."""
    _check(_madvise(start, size, advice), "madvise")


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    _check(_plain(_CLOSE_RANGE, first, LAST_UINT, 0, 0, 0), "close_range")


def signal_descriptor(signals: tuple[int, ...]) -> int:
    """Return a descriptor that is readable while one of the (blocked) signals is pending."""
    mask = ctypes.c_uint64(sum(1 << (number - 1) for number in signals))
    room = (ctypes.c_uint64 * 16)(mask.value)  # glibc's sigset_t has 128 bytes
    flags = _SFD_NONBLOCK | _SFD_CLOEXEC
    return _check(_signalfd(-1, ctypes.addressof(room), flags), "signalfd")


def forget_keys() -> None:
    """Join a new, empty session keyring in place of the inherited one."""
    _check(_plain(_KEYCTL, _KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0), "keyctl")


def drop_bounding(last_capability: int, keep: tuple[int, ...] = ()) -> None:
    """Remove all capabilities but `keep` from the bounding set."""
    for capability in range(last_capability + 1):
        if capability not in keep:
            _check(_prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "PR_CAPBSET_DROP")


def capabilities(permitted: tuple[int, ...]) -> tuple[bytes, bytes]:
    """Return the arguments with which capset(2) makes the permitted and effective sets these.

    The inheritable set is emptied.
    """
    mask = 0
    for capability in permitted:
        mask |= 1 << capability
    low, high = mask & LAST_UINT, mask >> 32
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    return header, struct.pack("=6I", low, low, 0, high, high, 0)


def set_capabilities(permitted: tuple[int, ...]) -> None:
    """Make the permitted and effective sets exactly these; the inheritable set is emptied."""
    _check(_capset(*capabilities(permitted)), "capset")
