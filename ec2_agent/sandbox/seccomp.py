"""The system call filter: the documented list, compiled by libseccomp.

Two programs, both of which must agree. The first allows calls by name and answers all others:
EPERM to those in REFUSED, ENOSYS to whatever nobody has judged yet, so that a libc that tries
a newer call falls back to an older one. The second looks at arguments. (One program cannot do
both: libseccomp can say "this bit pattern" but not "anything except it".)

libseccomp knows each architecture's numbers, kills a process that uses another architecture's
entry (int 0x80, x32), and is part of Debian, Ubuntu and Amazon Linux.
"""

import ctypes
import ctypes.util
import errno
import os
import socket
from typing import NamedTuple

from ec2_agent.sandbox import kernel, syscalls
from ec2_agent.sandbox.model import SandboxRefused

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000
_CMP_NE, _CMP_MASKED_EQ = 1, 7
_ATTR_ACT_BADARCH = 2
_WORD = 0xFFFFFFFF


class _Arg(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


class ArgumentRule(NamedTuple):
    """Refuse a call when `argument & mask == value`."""

    call: str
    argument: int
    mask: int
    value: int
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
_PTRACE_SCOPE_ALL = 0x59616D61
"""PR_SET_PTRACER of Yama."""
_AF_ALG, _AF_VSOCK, _AF_KEY, _AF_XDP = 38, 40, 15, 44

ARGUMENTS: tuple[ArgumentRule, ...] = (
    # A new namespace, a user namespace above all, is where most kernel escapes begin.
    *(ArgumentRule("clone", 0, flag, flag, errno.EPERM) for flag in _NAMESPACES),
    # Compared on the low word: the kernel takes no more of it (CVE-2019-10063 of bubblewrap).
    *(
        ArgumentRule("ioctl", 1, _WORD, command, errno.EPERM)
        for command in (_TIOCSTI, _TIOCLINUX, _TIOCSETD)
    ),
    # The Nitro hypervisor's side, the kernel's crypto and key sockets, raw packet rings.
    *(
        ArgumentRule("socket", 0, _WORD, family, errno.EAFNOSUPPORT)
        for family in (_AF_VSOCK, _AF_ALG, _AF_KEY, _AF_XDP, socket.AF_PACKET)
    ),
)
"""The second program."""


class _Library:
    """libseccomp, as far as it is needed."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
        try:
            self._lib = ctypes.CDLL(name)
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
        lib.seccomp_rule_add_array.argtypes = (*rule, ctypes.POINTER(_Arg))
        lib.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)

    def number(self, name: str) -> int:
        return int(self._lib.seccomp_syscall_resolve_name(name.encode()))

    def begin(self, default: int) -> int:
        context = self._lib.seccomp_init(default)
        if not context:
            raise SandboxRefused("libseccomp does not know this machine's architecture")
        self._check(self._lib.seccomp_attr_set(context, _ATTR_ACT_BADARCH, _KILL_PROCESS))
        return int(context)

    def add(self, context: int, action: int, number: int, *arguments: _Arg) -> None:
        array = (_Arg * max(1, len(arguments)))(*arguments)
        self._check(
            self._lib.seccomp_rule_add_array(context, action, number, len(arguments), array)
        )

    def finish(self, context: int) -> bytes:
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


def compile_filters() -> tuple[bytes, bytes]:
    """Give the two programs; raises SandboxRefused where libseccomp is missing.

    Names this libseccomp does not know yet are left out: an unknown call is answered ENOSYS.
    """
    library = _Library()
    names = library.begin(_ERRNO | errno.ENOSYS)
    for action, calls in ((_ALLOW, syscalls.ALLOWED), (_ERRNO | errno.EPERM, syscalls.REFUSED)):
        for call in calls:
            # Negative numbers are calls that exist on other architectures only.
            if (number := library.number(call)) >= 0:
                library.add(names, action, number)
    arguments = library.begin(_ALLOW)
    for rule in ARGUMENTS:
        if (number := library.number(rule.call)) >= 0:
            argument = _Arg(rule.argument, _CMP_MASKED_EQ, rule.mask, rule.value)
            library.add(arguments, _ERRNO | rule.error, number, argument)
    return library.finish(names), library.finish(arguments)
