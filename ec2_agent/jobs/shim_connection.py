"""The agent's connection to the shim of a job; `ec2_agent/shim/shim.py` lists the messages."""

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

from ec2_agent.sandbox import wire
from joblane.state.lease import Progress

PROGRESS_S = 1.0
"""Pause before a shim is asked for more progress: a heartbeat takes it along every 10 s."""


class ShimConnection:
    """A connection to one shim, from the event loop."""

    def __init__(self, sock: socket.socket | None, *, asked: bool = False) -> None:
        """Take over `sock`; None: the shim has ended, and what it is asked has no effect.

        `asked`: the order of its job asked for progress, and for `grown` at the first output.
        """
        self._sock = sock
        self._wanted = 0 if asked else None
        """Length that `grown` was asked for and has not come for."""
        self._loop = asyncio.get_running_loop()
        self.grown = asyncio.Event()
        """Set when the log is longer than `want` asked for."""
        self.ended: asyncio.Future[dict[str, Any] | None] = self._loop.create_future()
        """The exit record; None if the shim ended without sending it."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the shim has ended: it no longer writes its files."""
        self.progress: Progress | None = None
        """What the job reported last; None after its end."""
        self._work: asyncio.Future[int | None] | None = None
        if sock is None:
            self.close()
        else:
            sock.setblocking(False)
            self._loop.add_reader(sock.fileno(), self._on_readable, sock)
            if not asked:
                self._want_progress()

    def renew(self, until: float) -> None:
        """Let the job run up to a moment of CLOCK_BOOTTIME."""
        self._send({"do": "renew", "until": until})

    def stop(self, grace_s: float, why: str) -> None:
        """Send SIGTERM to the job, and SIGKILL after `grace_s`; its line says `why` if it asks."""
        self._send({"do": "stop", "grace_s": grace_s, "why": why})

    def kill(self) -> None:
        """Kill the job at once."""
        self._send({"do": "kill"})

    def want(self, size: int) -> None:
        """Ask for `grown` to be set when the log is longer than `size` bytes."""
        if size != self._wanted:
            self._wanted = size
            self._send({"do": "want", "size": size})

    def release(self) -> None:
        """Let the shim end after the job, and the files in the work directory go."""
        self._send({"do": "release"})

    def send_recorded(self) -> socket.socket | None:
        """Tell the shim that the job's outcome is recorded, and so its exit record not needed.

        Returns the connection, for another job; None if the shim has ended.
        """
        sock = self._sock
        if sock is not None:
            self._loop.remove_reader(sock.fileno())
            self._send({"do": "recorded"})
            sock.setblocking(True)
            self._sock = None
        self.close()
        return sock

    async def work(self) -> int | None:
        """Return a descriptor of the job's work directory, which the caller closes.

        None if the shim has ended, or holds none. One call at a time.
        """
        if self._sock is None:
            return None
        self._work = self._loop.create_future()
        self._send({"do": "send_work"})
        return await self._work

    def close(self) -> None:
        """Close the connection."""
        if self._sock is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._sock = None
        self.progress = None
        if not self.ended.done():
            self.ended.set_result(None)
        if not self.gone.done():
            self.gone.set_result(None)
        self._pass_work([])

    def _send(self, message: dict[str, Any]) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # it ends, or hangs until its deadline
                self._sock.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)

    def _on_readable(self, sock: socket.socket) -> None:
        try:
            body, fds = wire.receive_raw(sock)
        except BlockingIOError:
            return
        except ConnectionError:
            body, fds = b"", []
        message: dict[str, Any] = json.loads(body) if body else {"is": "gone"}
        if message["is"] == "grown":
            self._wanted = None
            self.grown.set()
        elif message["is"] == "progress":
            self.progress = Progress(**message["said"], at_ms=message["at"])
            self._loop.call_later(PROGRESS_S, self._want_progress)
        elif message["is"] == "work":
            self._pass_work(fds)
        elif not body:
            self.close()
        elif message["is"] == "ended" and not self.ended.done():
            self.progress = None
            self.ended.set_result(message)

    def _pass_work(self, fds: list[int]) -> None:
        """Pass the descriptor on to the caller of `work`; it is closed if that was cancelled."""
        waiting, self._work = self._work, None
        if waiting is not None and not waiting.done():
            waiting.set_result(fds.pop() if fds else None)
        for fd in fds:
            os.close(fd)

    def _want_progress(self) -> None:
        """Ask for the next progress."""
        self._send({"do": "want_progress"})
