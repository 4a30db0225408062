"""Encode the messages between agent, launcher process and slots.

The agent's requests are marshalled tuples, because the agent is trusted. Messages of slots are
parsed as fixed structures only: a job that controls its init can report a wrong ending, but not
send other data to the agent.

    agent -> launcher   (MAKE, slot, needs) + the slot's socket | (RELEASE, slot) | (CLOSE,)
    launcher -> agent   b"R" when it has started | b"F" + ERRNO + reason, on the slot's socket too
    agent -> slot       (WORK, has_disk, has_stage, keep) + [disk], [stage, plan], before LINK
                        | (LINK, address, gateway), before RUN, for network egress
                        | b"P" + the files of /proc about the job's machine, before RUN, if that
                        differs from the launcher's default
                        | b"J" + RUN + argv, env + [stdin], stdout, stderr, [line]
                        | b"B" + the message J in a memfd, then as J | b"S" + grace_s
                        | b"D": nothing that the job writes would be read any more
    slot -> agent       b"M" + its pidfd | b"F" + ERRNO + reason; then, if it was ordered for a
                        job, b"R" (+ its work directory, if it is to be kept) or b"F"; b"N" when
                        its main process has ended and others are left; at the end of the job
                        b"E" + ENDING + error text
"""

import _socket as socket  # see TYPE_CHECKING below
import fcntl
import marshal
import os
import struct

MAKE, RELEASE, CLOSE = "make", "release", "close"
WORK, LINK = "work", "link"
MADE, READY, REFUSED, MAIN_ENDED, ENDED = b"M", b"R", b"F", b"N", b"E"

ERRNO = struct.Struct("=i")
"""What the host lacked; 0 from a slot, because its own limits may have been the reason."""

ENDING = struct.Struct("=iBBBdd")
"""wait status, timed out, stopped, others were left and ended, CPU seconds, wall seconds."""

RUN = struct.Struct("=cBxxII4xdd")
"""struct run of slot.c: kind, has stdin, texts of argv and of env, timeout (-1: none) and grace in
seconds; then the texts, each with a NUL."""
STOP = struct.Struct("=c7xd")
"""Kind and grace in seconds."""
_MACHINE, _RUN, _BIG, _STOP, _DRAINED = b"P", b"J", b"B", b"S", b"D"

MACHINE_FILES = ("meminfo", "cpuinfo", "stat")
"""Files of /proc about a job's machine, in the order in which slots have them and are sent them."""
_SIZE = struct.Struct("=I")

PACKET = 65536
"""Longest message in bytes; a longer command and environment travel in a memfd."""

TYPE_CHECKING = False
"""Whether this is read by a type checker. What the launcher's process imports, it copies with
every slot that brings files or a link: typing, and socket and signal with their enums, cost page
faults."""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_ANCILLARY = socket.CMSG_SPACE(64)  # sixteen descriptors


def send(sock: socket.socket, message: "tuple[Any, ...]", fds: tuple[int, ...] = ()) -> None:
    """Send one message; raises OSError if the other side has ended."""
    send_raw(sock, marshal.dumps(message), fds)


def send_raw(sock: socket.socket, body: bytes, fds: tuple[int, ...] = ()) -> None:
    """Send one message that is not a tuple; raises OSError if the other side has ended."""
    rights = struct.pack(f"{len(fds)}i", *fds)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if fds else []
    sock.sendmsg([body], ancillary, socket.MSG_NOSIGNAL)


def receive_raw(sock: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """Return one message and its descriptors; empty bytes mean the end of the stream.

    Not socket.recv_fds: up to Python 3.12 it drops MSG_CMSG_CLOEXEC, and the job would inherit
    the descriptors that a slot receives.
    """
    flags |= socket.MSG_CMSG_CLOEXEC
    try:
        body, ancillary, _, _ = sock.recvmsg(PACKET, _ANCILLARY, flags)
    except ConnectionResetError:  # see receive_answer
        body, ancillary, _, _ = sock.recvmsg(PACKET, _ANCILLARY, flags)
    fds: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4]))
    return body, fds


def receive_answer(sock: socket.socket, flags: int = 0) -> bytes:
    """Return one message of a slot; the kernel drops any descriptors.

    A peer that ended before it read its last message is an error, which the kernel reports once
    and before the messages that the peer had sent.
    """
    try:
        return sock.recv(PACKET, flags)
    except ConnectionResetError:
        return sock.recv(PACKET, flags)


def receive(sock: socket.socket) -> "tuple[tuple[Any, ...], list[int]]":
    """Return one message of the trusted side; an empty tuple is the end of the stream."""
    body, fds = receive_raw(sock)
    return (marshal.loads(body) if body else ()), fds  # noqa: S302 - trusted side


def run_body(
    argv: tuple[str, ...],
    env: "Mapping[str, str]",
    timeout_s: float | None,
    grace_s: float,
    *,
    has_stdin: bool = False,
) -> bytes:
    """Encode a command."""
    texts = (*argv, *(f"{name}={value}" for name, value in env.items()), "")
    fixed = RUN.pack(
        _RUN, has_stdin, len(argv), len(env), -1.0 if timeout_s is None else timeout_s, grace_s
    )
    return fixed + "\0".join(texts).encode("utf-8", "surrogateescape")


def send_run(sock: socket.socket, body: bytes, fds: tuple[int, ...]) -> None:
    """Send a command of any size."""
    if len(body) <= PACKET:
        send_raw(sock, body, fds)
        return
    memory = in_memory(body)
    try:
        send_raw(sock, _BIG, (memory, *fds))
    finally:
        os.close(memory)


def machine_body(files: tuple[bytes, ...]) -> bytes:
    """Encode the files about a job's machine (MACHINE_FILES): each after its size in bytes."""
    return _MACHINE + b"".join(_SIZE.pack(len(content)) + content for content in files)


def send_stop(sock: socket.socket, grace_s: float) -> None:
    """Ask a slot to end its job; raises OSError if it has ended."""
    send_raw(sock, STOP.pack(_STOP, grace_s))


def send_drained(sock: socket.socket) -> None:
    """Say that nothing a job writes is read any more; raises OSError if it has ended."""
    send_raw(sock, _DRAINED)


def in_memory(body: bytes) -> int:
    """Return a new memfd with this content."""
    memory = os.memfd_create("message")
    view = memoryview(body)
    while view:
        view = view[os.write(memory, view) :]
    return memory


def sealed(message: "tuple[Any, ...]") -> int:
    """Return a new memfd for `read_big`, which nobody can change any more."""
    memory = os.memfd_create("message", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(memory, marshal.dumps(message))
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    return memory


def read_big(memory: int) -> "tuple[Any, ...]":
    """Read a tuple of the trusted side from a memfd, and close it."""
    os.lseek(memory, 0, os.SEEK_SET)
    with os.fdopen(memory, "rb") as file:
        message: tuple[Any, ...] = marshal.loads(file.read())  # noqa: S302 - trusted side
    return message


def attempt(call: "Callable[..., object]", *arguments: object, dir_fd: int | None = None) -> None:
    """Make a call whose OSError changes nothing."""
    try:
        call(*arguments, **({} if dir_fd is None else {"dir_fd": dir_fd}))
    except OSError:
        return


def park(fd: int, number: int) -> None:
    """Move a descriptor to a fixed number, with close-on-exec."""
    if fd != number:
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
