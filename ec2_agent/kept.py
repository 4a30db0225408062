"""A job that a shim keeps, as the agent sees it: its directory, its shim and its end.

`ec2_agent/shim/files.py` says what lies in the directory, `keeper.py` what the shim is told.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.flight import Held
from ec2_agent.sandbox import Ending, Launcher, Sandbox, Spec, Usage, refusal
from ec2_agent.shim import files
from ec2_agent.shim.log import Reader
from ec2_agent.shim.pool import Shims, entrust
from joblane.head import Head

LATE_S = 15.0
"""A job is killed from outside so long after its time and its grace: its init should have."""


AGAIN_S = 1.0
"""Pause before another look at how a job ended, for which this process lacked something."""


class StateTaken(Exception):
    """Another agent uses the state directory; the text says so."""


class ShimLost(Exception):
    """The shim of a job that has just been started is gone, and the job with it."""


class LeaseOver(ShimLost):
    """The time in which the job might be started has passed: others may have it by now."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What it takes to have jobs kept."""

    shims: Shims
    jobs: Path
    """The directory in which each job has one."""
    until: Callable[[], float]
    """Up to when the lease is safe, in seconds of CLOCK_BOOTTIME."""
    recovery: bool
    """Whether jobs may name conditions."""


def lock_state(folder: Path) -> int:
    """Make an agent's state directory, and lock it. Raises StateTaken, OSError.

    The lock is this process's: it is gone with it, and neither shims nor launcher inherit it.
    """
    (folder / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise StateTaken(f"{folder} belongs to another user")
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StateTaken(f"an agent of this name runs already, on {folder}") from None
    return lock


def boottime() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Folder:
    """The directory of one claim of one job."""

    def __init__(self, path: Path) -> None:
        """Open a directory that is there."""
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._log: int | None = None

    @classmethod
    def make(cls, jobs: Path, head: Head, held: Held) -> Self:
        """Make the directory of a claim, and note its message there; raises OSError."""
        path = jobs / f"{head.job_id}.{head.epoch}"
        path.mkdir(mode=0o700)
        try:
            folder = cls(path)
        except OSError:  # no descriptors left
            path.rmdir()
            raise
        try:
            received = held.received
            spec = {
                "job_id": head.job_id,
                "epoch": head.epoch,
                "queue": held.queue,
                "lane": held.lane.url,
                "dead_letters": held.dead_letters.url,
                "since": held.since,
                "body": received.body,
                "receipt": received.receipt,
                "receives": received.receives,
                "sent_ms": received.sent_ms,
            }
            # Before anybody else may find it; the shim gets this descriptor, and so the lock.
            fcntl.flock(folder.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder._log = folder._open_log()
            files.write(folder.fd, files.SPEC, spec)
        except BaseException:
            folder.remove()
            raise
        return folder

    @classmethod
    def all(cls, jobs: Path) -> Iterator[Self]:
        """Open every directory that there is."""
        for path in sorted(jobs.iterdir()):
            yield cls(path)

    @property
    def in_hand(self) -> bool:
        """Whether a shim has it, even one that has not written down yet who it is.

        The lock is that of the descriptor with which the directory was made: it went from the
        agent of then to the shim without a gap, and is free when both are gone.
        """
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def read(self, name: str) -> dict[str, Any] | None:
        """Read one of its files; None if it is not there or not whole."""
        return files.read(self.fd, name)

    def reader(self) -> Reader:
        """Open its log, behind what CloudWatch has."""
        if (log := self._log) is not None:
            self._log = None
            return Reader(log)
        return Reader(self._open_log(), (self.read(files.SHIPPED) or {"seq": 0})["seq"])

    def note_shipped(self, seq: int) -> None:
        """Note the last record that CloudWatch has; one told twice is read once."""
        with contextlib.suppress(OSError):  # a full disk: told again after a restart, that is all
            files.write(self.fd, files.SHIPPED, {"seq": seq})

    def remove(self) -> None:
        """Take it away: all of it is where it belongs."""
        for name in files.ALL:  # rmtree needs descriptors
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self.fd)
        try:
            self.path.rmdir()
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Leave it to the next agent."""
        for fd in (self.fd, self._log):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._log = None

    def _open_log(self) -> int:
        flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
        return os.open(files.LOG, flags, 0o600, dir_fd=self.fd)


class Link:
    """The connection to a shim, from the event loop."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`."""
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self.grown = asyncio.Event()
        """Set when there is more output."""
        self.ended: asyncio.Future[dict[str, Any] | None] = self._loop.create_future()
        """What the shim said at the end; None if it is gone without a word."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the shim has gone: it touches its files no more."""
        self._loop.add_reader(sock.fileno(), self._hear)

    def renew(self, until: float) -> None:
        """Let the job run up to a moment of CLOCK_BOOTTIME."""
        self._say({"do": "renew", "until": until})

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the job, and kill what is left after `grace_s`."""
        self._say({"do": "stop", "grace_s": grace_s})

    def kill(self) -> None:
        """Kill the job at once."""
        self._say({"do": "kill"})

    def want(self, size: int) -> None:
        """Ask to be told when the log is longer than `size` bytes."""
        self._say({"do": "want", "size": size})

    def close(self) -> None:
        """Leave the shim alone."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
        if not self.ended.done():
            self.ended.set_result(None)
        if not self.gone.done():
            self.gone.set_result(None)

    def _say(self, said: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it has ended, or hangs: its deadline sees to that
            self._sock.send(json.dumps(said).encode(), socket.MSG_NOSIGNAL)

    def _hear(self) -> None:
        try:
            body = self._sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            body = b""
        said = json.loads(body) if body else {"is": "gone"}
        if said["is"] == "grown":
            self.grown.set()
            return
        if not body:
            self.close()
        elif not self.ended.done():
            self.ended.set_result(said)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a kept job ended, by its exit record."""

    ending: Ending
    condition: str | None
    """What the job named before."""
    records: int
    lease_lost: bool
    """Killed because nobody renewed its time: another agent may run it now."""

    @classmethod
    def of(cls, said: dict[str, Any]) -> Self:
        """Read an exit record."""
        fields = said["ending"]
        ending = Ending(**{**fields, "usage": Usage(**fields["usage"])})
        return cls(ending, said["condition"], said["records"], said["lease_lost"])


class Kept:
    """One job that runs, or has ended, in the care of a shim."""

    def __init__(self, folder: Folder, link: Link | None, sandbox: Sandbox | None = None) -> None:
        """Without a `link` the shim has gone already. `sandbox`: our launcher made it."""
        self.folder = folder
        self.link = link
        self._sandbox = sandbox

    async def end(self) -> Exit | None:
        """Wait for the end; None if the shim was killed, and every process of the job is dead."""
        said = None if self.link is None else await self.link.ended
        while said is None:
            try:
                said = self.folder.read(files.EXIT)
                if said is None:
                    await in_thread(self._make_sure, "kill")
                break
            except (OSError, NoThread):  # no descriptors or threads left: until there are
                await asyncio.sleep(AGAIN_S)
        if self._sandbox is not None:
            self._sandbox.bury(killed=said is None or bool(said["killed"]))
        return None if said is None else Exit.of(said)

    async def gone(self, timeout_s: float) -> None:
        """Wait until the shim has gone, or for so long."""
        if self.link is not None:
            await asyncio.wait({self.link.gone}, timeout=timeout_s)

    def remove(self) -> None:
        """Take the directory away, once the shim is through with it."""
        if self.link is None or self.link.gone.done():
            self.folder.remove()
        else:
            self.link.gone.add_done_callback(lambda _: self.folder.remove())

    def _make_sure(self) -> None:
        """Kill what a shim that was killed has left; return when all of it is dead."""
        who = self.folder.read(files.SHIM)
        if self._sandbox is not None:
            self._sandbox.kill()
        elif who is not None:
            end_process(who["init"])


def end_process(who: dict[str, Any]) -> None:
    """Kill a process by its identity, and wait until it is gone. Raises OSError."""
    try:
        pidfd = os.pidfd_open(who["pid"])
    except ProcessLookupError:
        return
    try:
        if files.lives(who):  # asked with the pidfd in hand: the number cannot change hands now
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll()
    finally:
        os.close(pidfd)


def start(
    keep: Keep, launcher: Launcher, spec: Spec, folder: Folder
) -> tuple[socket.socket, Sandbox]:
    """Start a job and give it to a shim. Blocking. Raises SandboxRefused, or ShimLost.

    Until the shim has it the job hangs on us; then on the shim alone.
    """
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as ends:
        try:
            shim = keep.shims.take()
            undo.callback(shim.close)
            out, err = _pipe(ends), _pipe(ends)
            ours, theirs = socket.socketpair()
            ends.callback(ours.close)
            ends.callback(theirs.close)
            if boottime() >= keep.until():
                # This process stood still since the claim. A shim would see it too, and kill the
                # job after its first steps.
                raise LeaseOver("its lease ended before it was started")
            sandbox = launcher.start(spec, stdout=out[1], stderr=err[1], line=theirs.fileno())
        except OSError as failed:
            raise refusal(failed.errno, str(failed)) from failed
        late = None if spec.timeout_s is None else spec.timeout_s + spec.grace_s + LATE_S
        kill_at = None if late is None else time.monotonic() + late
        order = {"until": keep.until(), "kill_at": kill_at, "recovery": keep.recovery}
        try:
            fds = (out[0], err[0], ours.fileno(), launcher.lock)
            entrust(shim, folder.fd, sandbox, fds, order)
        except OSError as gone:
            sandbox.kill()
            sandbox.bury(killed=True)
            raise ShimLost(f"its shim was lost at the start: {gone}") from gone
        undo.pop_all()
    return shim, sandbox


def _pipe(ends: contextlib.ExitStack) -> tuple[int, int]:
    made = os.pipe2(os.O_CLOEXEC)
    for fd in made:
        ends.callback(os.close, fd)
    return made
