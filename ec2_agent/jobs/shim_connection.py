"""The agent's connection to the shim of a job; `ec2_agent/shim/shim.py` lists the messages."""

import asyncio
import contextlib
import json
import socket
from typing import Any

from joblane.job.lease import Progress

PROGRESS_S = 1.0
"""Pause before a shim is asked for more progress: a heartbeat takes it along every 10 s."""


class ShimConnection:
    """A connection to one shim, from the event loop."""

    def __init__(self, sock: socket.socket | None) -> None:
        """Take over `sock`; None: the shim has ended, and what it is asked has no effect."""
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self.grown = asyncio.Event()
        """Set when the log is longer than `want` asked for."""
        self.ended: asyncio.Future[dict[str, Any] | None] = self._loop.create_future()
        """The exit record; None if the shim ended without sending it."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the shim has ended: it no longer writes its files."""
        self.progress: Progress | None = None
        """What the job reported last; None after its end."""
        if sock is None:
            self.close()
        else:
            sock.setblocking(False)
            self._loop.add_reader(sock.fileno(), self._on_readable, sock)
            self._want_progress()

    def renew(self, until: float) -> None:
        """Let the job run up to a moment of CLOCK_BOOTTIME."""
        self._send({"do": "renew", "until": until})

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the job, and SIGKILL after `grace_s`."""
        self._send({"do": "stop", "grace_s": grace_s})

    def kill(self) -> None:
        """Kill the job at once."""
        self._send({"do": "kill"})

    def want(self, size: int) -> None:
        """Ask for `grown` to be set when the log is longer than `size` bytes."""
        self._send({"do": "want", "size": size})

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

    def _send(self, message: dict[str, Any]) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # it ends, or hangs until its deadline
                self._sock.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)

    def _on_readable(self, sock: socket.socket) -> None:
        try:
            body = sock.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            body = b""
        message: dict[str, Any] = json.loads(body) if body else {"is": "gone"}
        if message["is"] == "grown":
            self.grown.set()
        elif message["is"] == "progress":
            self.progress = Progress(message["percent"], message["message"], message["at"])
            self._loop.call_later(PROGRESS_S, self._want_progress)
        elif not body:
            self.close()
        elif not self.ended.done():
            self.progress = None
            self.ended.set_result(message)

    def _want_progress(self) -> None:
        """Ask for the next progress; shims of earlier versions do not answer."""
        self._send({"do": "want_progress"})
