"""A road to AWS that somebody may block: a proxy on loopback with faults on demand."""

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from tests.support.http_server import Quiet

Fault = Literal["refuse", "hang", "error", "throttle", "slow", "cut"]
FAULTS: tuple[Fault, ...] = ("refuse", "hang", "error", "throttle", "slow", "cut")

SLOW_S = 1.5
SHARE = 0.7
"""How many requests a fault meets: what is retried gets through now and then, as in an outage.
With 1 nothing does, not even the answer to what was asked before: the client is cut off."""

_RESET = struct.pack("ii", 1, 0)  # linger for no time: close with RST


class Proxy(ThreadingHTTPServer):
    """Passes every request on to one endpoint, until a test sets `fault`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, endpoint: str, seed: int, share: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._share = share
        split = urlsplit(endpoint)
        self.upstream = (str(split.hostname), int(split.port or 80))
        self.fault: Fault | None = None
        self.only = ""
        """What it meets: requests whose `X-Amz-Target` begins so, or method and path for S3."""
        self.hit = 0
        """How many requests met a fault."""
        self.asked: Counter[str] = Counter()
        """Requests by the operation that `X-Amz-Target` names, or by method and path."""
        self._dice = random.Random(seed)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def draw(self, target: str) -> Fault | None:
        """Decide what the next request meets."""
        with self._lock:
            self.asked[target if " " in target else target.rpartition(".")[2]] += 1
            fault = self.fault
            if fault is None or not target.startswith(self.only):
                return None
            if self._dice.random() >= self._share:
                return None
            self.hit += 1
            return fault

    @property
    def cut_off(self) -> bool:
        """Whether nothing gets through at all."""
        return self.fault in ("refuse", "hang") and self._share >= 1 and not self.only

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that a client gave up, or that we cut."""


@contextlib.contextmanager
def proxy(endpoint: str, seed: int, share: float = SHARE) -> Iterator[Proxy]:
    """Serve for the length of a block."""
    with Proxy(endpoint, seed, share) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(Quiet, BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_GET(self) -> None:
        """Pass a request on."""
        self._pass()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the base's names

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.server.draw(self.headers.get("X-Amz-Target") or f"{self.command} {self.path}"):
            case "refuse":
                self._drop()
            case "hang":
                while self.server.fault == "hang":
                    time.sleep(0.1)
                self._drop()
            case "error":
                self._say(500, "InternalServerError")
            case "throttle":
                self._say(400, "ThrottlingException")
            case "slow":
                time.sleep(SLOW_S)
                self._answer(*self._ask(body))
            case "cut":
                # It was done, and nobody will know.
                status, headers, answer = self._ask(body)
                self._head(status, headers, len(answer))
                self.wfile.write(answer[: len(answer) // 2])
                self._drop()
            case None:
                answered = self._ask(body)
                if self.server.cut_off:
                    self._drop()
                else:
                    self._answer(*answered)

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = HTTPConnection(*self.server.upstream, timeout=60)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer: HTTPResponse = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._head(status, headers, len(body))
        self.wfile.write(body)

    def _head(self, status: int, headers: list[tuple[str, str]], length: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _say(self, status: int, error: str) -> None:
        body = f'{{"__type": "{error}", "message": "made up"}}'.encode()
        kind = [("Content-Type", "application/x-amz-json-1.0"), ("x-amzn-errortype", error)]
        self._answer(status, kind, body)

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.connection.close()
