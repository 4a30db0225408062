"""Lists of system calls, prepared once, which slots carry out without running Python (slot.c)."""

import ctypes
import os
import struct

_MACHINE = os.uname().machine
_BOTH = {
    # x86_64, aarch64
    "capset": (126, 91),
    "chdir": (80, 49),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup3": (292, 24),
    "faccessat": (269, 48),
    "fchmodat": (268, 53),
    "fchownat": (260, 54),
    "ioctl": (16, 29),
    "mkdirat": (258, 34),
    "mount": (165, 40),
    "openat": (257, 56),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "setresgid": (119, 149),
    "setresuid": (117, 147),
    "setsid": (112, 157),
    "socket": (41, 198),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "write": (1, 64),
}
NUMBERS = {
    machine: {call: numbers[place] for call, numbers in _BOTH.items()}
    for place, machine in enumerate(("x86_64", "aarch64"))
}
"""Numbers of system calls by architecture (asm/unistd.h of the kernel)."""

OPENED = -(1 << 63)
"""As an argument: the descriptor that the last call opened."""
UID = OPENED + 1
"""As an argument: the slot's uid outside, which is its gid too."""
UID_TEXT = b"##########"
"""In a text: the same in decimal digits, with blanks before it."""

_OPENS = ("openat", "socket")
_OPENS_ONE, _MAY_FAIL, _FINDS_NOTHING = 1, 2, 4
_STEP = struct.Struct("=qq6qq")
"""struct step of slot.c."""
_FIRST_ARGUMENT, _WHAT = 16, 64
"""Where these are in it."""
_FPROG = struct.Struct("=H6xq")
_INT64 = struct.Struct("=q")
_SECCOMP_SET_MODE_FILTER = 1
_OF_THE_LIBRARY = 1024
"""From 513 bytes on CPython allocates with the C library, whose memory slots have (memory.py)."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    Block = ctypes.Array[ctypes.c_char]


class Steps:
    """A list of system calls. Bytes among the arguments become pointers to a copy of them."""

    __slots__ = (
        "_block",
        "_data",
        "_numbers",
        "_pointers",
        "_steps",
        "_uid_texts",
        "_uids",
        "_whats",
    )

    def __init__(self) -> None:
        self._numbers = NUMBERS[_MACHINE]
        self._steps = bytearray()
        self._data = bytearray()
        self._pointers: list[tuple[bytearray, int]] = []
        """Where offsets in `_data` are, which become addresses."""
        self._uids: list[int] = []
        """Where the uid is to be written in `_steps`."""
        self._uid_texts: list[int] = []
        """Where it is to be written in `_data`, as text."""
        self._whats: list[str] = []
        self._block: Block | None = None

    def add(self, what: str, call: str, *arguments: "int | bytes") -> None:
        """Add a call; `what` begins the message when it fails."""
        self._append(_OPENS_ONE if call in _OPENS else 0, what, call, arguments)

    def add_attempt(self, call: str, *arguments: "int | bytes") -> None:
        """Add a call whose failure changes nothing."""
        self._append(_MAY_FAIL, "", call, arguments)

    def add_absence(self, path: str) -> None:
        """Add to fail if the path is there."""
        arguments = -100, os.fsencode(path), os.F_OK  # AT_FDCWD
        self._append(_FINDS_NOTHING, f"hide {path}", "faccessat", arguments)

    def _append(
        self, flags: int, what: str, call: str, arguments: "tuple[int | bytes, ...]"
    ) -> None:
        at = len(self._steps)
        values = [0] * 6
        for place, value in enumerate(arguments):
            field = at + _FIRST_ARGUMENT + place * _INT64.size
            if isinstance(value, bytes):
                values[place] = self._store(value)
                self._pointers.append((self._steps, field))
                continue
            values[place] = value
            if value == UID:
                self._uids.append(field)
        self._pointers.append((self._steps, at + _WHAT))
        text = self._store(what.encode())
        self._whats.append(what)
        self._steps += _STEP.pack(self._numbers[call], flags, *values, text)

    def add_mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        """Add to mount a file system, or to change a mount when `flags` say so."""
        texts = os.fsencode(source), os.fsencode(target), kind.encode()
        self.add(f"mount {kind or source} on {target}", "mount", *texts, flags, os.fsencode(data))

    def add_write(self, directory: int, path: str, text: bytes) -> None:
        """Add to write a file."""
        self._add_write(0, path, directory, text)

    def add_write_attempt(self, directory: int, path: str, text: bytes) -> None:
        """Add to write a file; a failure changes nothing."""
        self._add_write(_MAY_FAIL, path, directory, text)

    def _add_write(self, flags: int, path: str, directory: int, text: bytes) -> None:
        opening = directory, os.fsencode(path), os.O_WRONLY | os.O_CLOEXEC
        self._append(flags | _OPENS_ONE, path, "openat", opening)
        self._append(flags, path, "write", (OPENED, text, len(text)))
        self._append(flags, path, "close", (OPENED,))

    def add_filter(self, program: bytes) -> None:
        """Add to load a seccomp program; needs no_new_privileges before."""
        code = self._store(program)
        # struct sock_fprog: a u16 count of 8-byte instructions, padding, a pointer
        self._pointers.append((self._data, len(self._data) + _INT64.size))
        fprog = _FPROG.pack(len(program) // 8, code)
        self.add("seccomp", "seccomp", _SECCOMP_SET_MODE_FILTER, 0, fprog)

    def _store(self, content: bytes) -> int:
        """Keep a copy, followed by NUL; returns its offset."""
        at = len(self._data)
        if UID_TEXT in content:
            self._uid_texts.append(at + content.index(UID_TEXT))
        self._data += content + bytes(8 - len(content) % 8)
        return at

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self._steps) // _STEP.size

    def what(self, number: int) -> str:
        """Return the beginning of the message about a call."""
        return self._whats[number]

    def address(self, uid: int) -> int:
        """Return where the list for a slot of this uid is in memory, until the next call."""
        if self._block is None:
            self._block = self._place()
        start = ctypes.addressof(self._block)
        number, text = _INT64.pack(uid), str(uid).rjust(len(UID_TEXT)).encode()
        for at in self._uids:
            ctypes.memmove(start + at, number, len(number))
        for at in self._uid_texts:
            ctypes.memmove(start + len(self._steps) + at, text, len(text))
        return start

    def _place(self) -> "Block":
        """Copy the calls and after them the data into one block."""
        size = len(self._steps) + len(self._data)
        block = ctypes.create_string_buffer(max(size, _OF_THE_LIBRARY))
        data = ctypes.addressof(block) + len(self._steps)
        for part, at in self._pointers:
            part[at : at + _INT64.size] = _INT64.pack(data + _INT64.unpack_from(part, at)[0])
        ctypes.memmove(block, bytes(self._steps + self._data), size)
        return block
