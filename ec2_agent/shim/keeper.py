"""One job's shim: keeps the job alive, writes down what it does, and outlives the agent.

It holds the slot's socket alone, so the job lives exactly as long as this process. It takes
what the job writes, hears its line, and tells a connected agent; nothing here waits for one.

    agent -> shim   {"do": "renew", "until": s} | {"do": "want", "size": bytes}
                    | {"do": "stop", "grace_s": s} | {"do": "kill"}
    shim -> agent   {"is": "grown"} | {"is": "ended", ...}, the content of the file `exit`

Times `until` are seconds of CLOCK_BOOTTIME: when it comes and no agent has renewed it, the job is
killed, because others may soon take it for lost.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import struct
import time
from pathlib import Path

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.shim import files
from ec2_agent.shim.line import Line
from ec2_agent.shim.log import Cutter, Writer
from joblane.condition_names import requested

READ_BYTES = 64 * 1024
"""One read: a pipe's usual size, so that a flood on one pipe does not keep the others waiting."""

PIPE_BYTES = 1024 * 1024
"""The most a pipe can hold (fs.pipe-max-size)."""

PARTIAL_AFTER_S = 0.2
"""An unfinished line (a prompt, a progress bar) is shown after this long."""

LOOK_EVERY_S = 10.0
"""A sleep of the machine does not count for poll, so the clock that counts it is looked at."""

AGAIN_S = 1.0
"""Pause before another try to write the exit record: the disk is full."""

BURIAL_S = 5.0
"""How long the kernel may take to end a sandbox whose holder has gone."""

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from typing import Any


def live(agent: socket.socket) -> None:
    """Be a shim: wait for a job, keep it to its end. The caller ends the process then."""
    agent.send(wire.READY)
    body, fds = wire.receive_raw(agent)
    if not body:
        return  # the agent has gone, and had no job for us
    order = json.loads(body)
    folder, slot, pidfd, out, err, line, _lock = fds  # the lock is only held
    os.fchdir(folder)
    os.umask(0o177)
    Keeper(agent, folder, order, (slot, pidfd, out, err, line)).run()


def boottime() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Keeper:
    """The state of one shim."""

    def __init__(
        self,
        agent: socket.socket,
        folder: int,
        order: "dict[str, Any]",
        fds: tuple[int, int, int, int, int],
    ) -> None:
        """Take the job over: from here on its life hangs on this process."""
        slot, pidfd, out, err, line = fds
        self._folder = folder
        self._init = os.dup(pidfd)
        self._leaf = Path(order["leaf"]) if order["leaf"] else None
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, slot)
        self._sandbox = Sandbox(sock, pidfd, self._leaf, self._note_death, tuple(order["past"]))
        self._killed = False
        self._until: float = order["until"]
        self._kill_at: float | None = order["kill_at"]
        self._lease_lost = False
        self._pipes = {out: ("stdout", Cutter()), err: ("stderr", Cutter())}
        for fd in self._pipes:
            os.set_blocking(fd, False)
        check = requested if order["recovery"] else _no_recovery
        self._line = Line(socket.socket(fileno=line), check, time.monotonic())
        self._deaf_until = 0.0
        self._flush_at: float | None = None
        log = os.open(files.LOG, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder)
        self._log = Writer(log)
        self._wanted: int | None = None
        self._exit: dict[str, Any] | None = None
        self._agent: socket.socket | None = agent
        agent.setblocking(False)
        self._listener: socket.socket | None = None
        self._announce_at: float | None = None
        self._who = files.identity(os.getpid()) | {"init": files.identity(_pid_of(pidfd))}
        self._announce()

    def _announce(self) -> None:
        """Leave word of where we are for the next agent; a disk that is full is tried again."""
        self._announce_at = None
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(files.SOCKET)
            listener.bind(files.SOCKET)
            listener.listen(4)
            listener.setblocking(False)
            files.write(self._folder, files.SHIM, self._who)
        except OSError:
            listener.close()
            self._announce_at = time.monotonic() + AGAIN_S
            return
        self._listener = listener

    def run(self) -> None:
        """Keep the job to its end, and until that is written down."""
        while self._exit is None:
            self._once()
        # The agent first: its journal is as durable, and need not wait for this disk.
        self._tell_end()
        while not self._write_exit():
            self._serve(AGAIN_S)
            self._tell_end()  # another agent may have come
        self._bury()

    def _once(self) -> None:
        """Sleep until something happens, and deal with it."""
        now = time.monotonic()
        ends = [now + LOOK_EVERY_S, now + self._until - boottime()]
        ends += [at for at in (self._flush_at, self._kill_at, self._announce_at) if at]
        hears = self._line.fileno() >= 0 and now >= self._deaf_until
        if self._line.fileno() >= 0 and not hears:
            ends.append(self._deaf_until)
        watched = [self._sandbox.fileno(), *self._pipes]
        if hears:
            watched.append(self._line.fileno())
        news = self._poll(watched, max(0.0, min(ends) - now))
        for fd in news:
            if fd in self._pipes:
                self._read(fd)
            elif hears and fd == self._line.fileno():
                self._deaf_until = time.monotonic() + self._line.pump(time.monotonic())
        self._look_at_the_clock()
        if self._sandbox.fileno() in news:
            self._conclude()

    def _serve(self, pause_s: float) -> None:
        """Only listen to agents for a while."""
        self._poll([], pause_s)

    def _poll(self, watched: list[int], pause_s: float) -> set[int]:
        """Sleep until one of these is readable; agents are dealt with on the way."""
        poll = select.poll()
        for fd in watched:
            poll.register(fd, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        if self._agent is not None:
            poll.register(self._agent, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(pause_s * 1000)}
        if self._agent is not None and self._agent.fileno() in ready:
            self._obey()
        if self._listener is not None and self._listener.fileno() in ready:
            self._accept(self._listener)
        return ready

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._flush_at is not None and now >= self._flush_at:
            self._flush()
        if self._announce_at is not None and now >= self._announce_at:
            self._announce()
        if not self._lease_lost and boottime() >= self._until:
            self._lease_lost = True
            self._kill()
        if self._kill_at is not None and now >= self._kill_at:
            # Long past its time: an init that has not seen to it is not to be trusted.
            self._kill_at = None
            self._kill()

    def _read(self, fd: int) -> bool:
        """Read once. Returns whether there may be more."""
        stream, cutter = self._pipes[fd]
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._end(fd)
            return False
        for piece in cutter.feed(data):
            self._write(stream, piece)
        if cutter.waits and self._flush_at is None:
            self._flush_at = time.monotonic() + PARTIAL_AFTER_S
        return True

    def _end(self, fd: int) -> None:
        stream, cutter = self._pipes.pop(fd)
        os.close(fd)
        for piece in cutter.flush():
            self._write(stream, piece)

    def _flush(self) -> None:
        self._flush_at = None
        for stream, cutter in self._pipes.values():
            for piece in cutter.flush():
                self._write(stream, piece)

    def _write(self, stream: str, piece: bytes) -> None:
        self._log.write(stream, piece, time.time_ns() // 1_000_000)
        if self._wanted is not None and self._log.size > self._wanted:
            self._wanted = None
            self._say({"is": "grown"})

    def _accept(self, listener: socket.socket) -> None:
        """Let an agent in, in the place of the one before; nobody else."""
        with contextlib.suppress(OSError):
            agent, _ = listener.accept()
            raw = agent.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            if struct.unpack("3i", raw)[1] != os.geteuid():
                agent.close()
                return
            if self._agent is not None:
                self._agent.close()
            agent.setblocking(False)
            self._agent = agent

    def _obey(self) -> None:
        """Do what the agent says; it is trusted, and may go at any time."""
        if self._agent is None:
            return
        try:
            body = self._agent.recv(wire.PACKET)
        except BlockingIOError:
            return
        except ConnectionError:
            body = b""
        if not body:
            self._agent.close()
            self._agent = None
            return
        said = json.loads(body)
        match said["do"]:
            case "renew":
                self._until = max(self._until, said["until"])
            case "want":
                self._wanted = said["size"]
                if self._log.size > said["size"]:
                    self._wanted = None
                    self._say({"is": "grown"})
            case "stop" if self._exit is None:
                self._sandbox.stop(said["grace_s"])
            case "kill":
                self._kill()

    def _say(self, said: "dict[str, Any]") -> None:
        if self._agent is not None:
            with contextlib.suppress(OSError):  # one that does not listen reads the files later
                self._agent.send(json.dumps(said).encode(), socket.MSG_NOSIGNAL)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def _note_death(self, killed: bool) -> None:  # noqa: FBT001 - a callback
        self._killed = killed

    def _conclude(self) -> None:
        """Take in what is left; every process of the job is dead."""
        ending = self._sandbox.wait()
        for fd in tuple(self._pipes):
            # If a writer has passed its end of the pipe on, that must not keep us here.
            for _ in range(PIPE_BYTES // READ_BYTES):
                if fd not in self._pipes or not self._read(fd):
                    break
            if fd in self._pipes:
                self._end(fd)
        self._line.finish()
        self._exit = {
            "ending": dataclasses.asdict(ending),
            "condition": self._line.condition,
            "records": self._log.seq,
            "lease_lost": self._lease_lost,
            "killed": self._killed,
        }

    def _write_exit(self) -> bool:
        try:
            files.write(self._folder, files.EXIT, self._exit or {}, durable=True)
        except FileNotFoundError:
            return True  # the agent has taken the directory away: it knows
        except OSError:
            return False
        return True

    def _tell_end(self) -> None:
        self._say({"is": "ended", **(self._exit or {})})

    def _bury(self) -> None:
        """Remove the cgroup: the launcher that would do it may be gone."""
        poll = select.poll()
        poll.register(self._init, select.POLLIN)
        poll.poll(BURIAL_S * 1000)
        if self._leaf is not None:
            with contextlib.suppress(OSError):
                self._leaf.rmdir()
        with contextlib.suppress(OSError):
            os.unlink(files.SOCKET)


def _no_recovery(_: str) -> None:
    raise ValueError("this deployment has no recovery, so nothing can be waited for")


def _pid_of(pidfd: int) -> int:
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(text.split()[1]) for text in file if text.startswith("Pid:"))
