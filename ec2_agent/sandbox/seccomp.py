"""The system call filter: the documented list, compiled by libseccomp.

Two programs, both of which must agree, and a third where slots share inodes. The first allows calls
by name and answers all others: EPERM to those in REFUSED, ENOSYS to unlisted ones, so that a libc
that tries a newer call falls back to an older one. The second looks at arguments. (One program
cannot do both: libseccomp can say "this bit pattern" but not "anything except it".)

libseccomp knows each architecture's numbers, kills a process that uses another architecture's
entry (int 0x80, x32), and is part of Debian, Ubuntu and Amazon Linux.
"""

import ctypes
import errno
import fcntl
import os
import socket
from typing import NamedTuple

from ec2_agent.sandbox import kernel, syscalls
from ec2_agent.sandbox.model import SandboxRefused

SONAME = "libseccomp.so.2"

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_CMP_NE, _CMP_EQ, _CMP_MASKED_EQ = 1, 4, 7
_ATTR_ACT_BADARCH, _ATTR_OPTIMIZE = 2, 8
_WORD = 0xFFFFFFFF


class Compare(ctypes.Structure):
    """One condition on an argument: `argument & first == second`, or `argument != first`."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def _low(argument: int, value: int) -> Compare:
    """Compare the low word alone: the kernel takes no more of an int (CVE-2019-10063)."""
    return Compare(argument, _CMP_MASKED_EQ, _WORD, value)


def _has(argument: int, bit: int) -> Compare:
    return Compare(argument, _CMP_MASKED_EQ, bit, bit)


class ArgumentRule(NamedTuple):
    """Refuse a call when all of the conditions hold."""

    call: str
    conditions: tuple[Compare, ...]
    error: int


_NAMESPACES = (
    kernel.CLONE_NEWNS,
    kernel.CLONE_NEWCGROUP,
    kernel.CLONE_NEWUTS,
    kernel.CLONE_NEWIPC,
    kernel.CLONE_NEWUSER,
    kernel.CLONE_NEWPID,
    kernel.CLONE_NEWNET,
)
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_AF_ALG, _AF_VSOCK, _AF_KEY, _AF_XDP = 38, 40, 15, 44

ARGUMENTS: tuple[ArgumentRule, ...] = (
    # A new namespace, a user namespace above all, is where most kernel escapes begin.
    *(ArgumentRule("clone", (_has(0, flag),), errno.EPERM) for flag in _NAMESPACES),
    # Keys pushed into a terminal, the console's selection, another line discipline.
    *(
        ArgumentRule("ioctl", (_low(1, command),), errno.EPERM)
        for command in (_TIOCSTI, _TIOCLINUX, _TIOCSETD)
    ),
    # The Nitro hypervisor's side, the kernel's crypto and key sockets, raw packet rings.
    *(
        ArgumentRule("socket", (_low(0, family),), errno.EAFNOSUPPORT)
        for family in (_AF_VSOCK, _AF_ALG, _AF_KEY, _AF_XDP, socket.AF_PACKET)
    ),
    # Transports that programs do not need, and that the kernel has much code for: DCCP, L2TP, SCTP,
    # UDP-Lite, MPTCP. This is what a kernel without them answers; Go falls back to TCP at it.
    *(
        ArgumentRule("socket", (_low(2, protocol),), errno.EPROTONOSUPPORT)
        for protocol in (33, 115, 132, 136, 262)
    ),
    # Of netlink only protocol 0, NETLINK_ROUTE: libc lists its own interfaces with it.
    ArgumentRule(
        "socket", (_low(0, socket.AF_NETLINK), Compare(2, _CMP_NE, 0)), errno.EAFNOSUPPORT
    ),
)
"""The second program."""

SHARED_INODES: tuple[ArgumentRule, ...] = (
    ArgumentRule("inotify_init", (), errno.ENOSYS),
    ArgumentRule("inotify_init1", (), errno.ENOSYS),
    ArgumentRule("fcntl", (_low(1, fcntl.F_NOTIFY),), errno.EINVAL),
)
"""A third program, where slots share inodes: a job would see which programs others start."""

PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux as it is, with a 2.6 version, with 32-bit uname, and the question; as in moby's profile."""


class Library:
    """Bindings for the functions of libseccomp that are used."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL(SONAME)
        except OSError:
            raise SandboxRefused(
                "libseccomp is not installed, so no system call could be filtered; "
                "install the package libseccomp2 (Debian, Ubuntu) or libseccomp (Amazon Linux)"
            ) from None
        lib = self._lib
        lib.seccomp_init.restype = ctypes.c_void_p
        lib.seccomp_init.argtypes = (ctypes.c_uint32,)
        lib.seccomp_release.argtypes = (ctypes.c_void_p,)
        lib.seccomp_attr_set.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
        lib.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
        rule = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint)
        lib.seccomp_rule_add_array.argtypes = (*rule, ctypes.POINTER(Compare))
        lib.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)

    def number(self, name: str) -> int:
        """Return a system call's number here; negative when this architecture has none."""
        return int(self._lib.seccomp_syscall_resolve_name(name.encode()))

    def begin(self, default: int) -> int:
        """Start a program whose default action is `default`."""
        context = self._lib.seccomp_init(default)
        if not context:
            raise SandboxRefused("libseccomp does not know this machine's architecture")
        self._check(self._lib.seccomp_attr_set(context, _ATTR_ACT_BADARCH, _KILL_PROCESS))
        # A tree in place of a chain halves what the kernel takes to load the program (measured:
        # 290 to 132 us, once a slot). Not in libseccomp before 2.5, which makes the chain.
        self._lib.seccomp_attr_set(context, _ATTR_OPTIMIZE, 2)
        return int(context)

    def add(self, context: int, action: int, number: int, *conditions: Compare) -> None:
        """Add a rule for one system call; all conditions must hold."""
        array = (Compare * len(conditions))(*conditions)
        code = self._lib.seccomp_rule_add_array(context, action, number, len(conditions), array)
        self._check(code)

    def finish(self, context: int) -> bytes:
        """Return the program and free the filter."""
        memory = os.memfd_create("bpf")
        try:
            self._check(self._lib.seccomp_export_bpf(context, memory))
            size = os.fstat(memory).st_size
            return os.pread(memory, size, 0)
        finally:
            os.close(memory)
            self._lib.seccomp_release(context)

    @staticmethod
    def _check(result: int) -> None:
        if result:
            raise SandboxRefused(f"libseccomp refused a rule: {os.strerror(-result)}")


def compile_filters() -> tuple[bytes, bytes, bytes]:
    """Return the programs; raises SandboxRefused where libseccomp is missing.

    Names this libseccomp does not know yet are left out: an unknown call is answered ENOSYS.
    """
    library = Library()
    names = library.begin(_ERRNO | errno.ENOSYS)
    for action, calls in ((_ALLOW, syscalls.ALLOWED), (_ERRNO | errno.EPERM, syscalls.REFUSED)):
        for call in calls:
            # Negative numbers are calls that exist on other architectures only.
            if (number := library.number(call)) >= 0:
                library.add(names, action, number)
    for value in PERSONALITIES:
        condition = Compare(0, _CMP_EQ, value)
        library.add(names, _ALLOW, library.number("personality"), condition)
    by_rules = _compile_rules(library, ARGUMENTS), _compile_rules(library, SHARED_INODES)
    return library.finish(names), *by_rules


def _compile_rules(library: Library, rules: tuple[ArgumentRule, ...]) -> bytes:
    """Return a program that allows all calls but those that a rule refuses."""
    program = library.begin(_ALLOW)
    for rule in rules:
        if (number := library.number(rule.call)) >= 0:
            library.add(program, _ERRNO | rule.error, number, *rule.conditions)
    return library.finish(program)
