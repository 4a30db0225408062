"""A small API on loopback: real sockets, scripted jobs, faults on demand.

It keeps the contract that the client relies on, and can go
away and come back on the same port, cut a connection, or answer anything at all.
"""

import json
import socket
import ssl
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from joblane.formats.levels import Level, reaches
from tests.support.http_server import Quiet

if TYPE_CHECKING:
    from collections.abc import Callable

CUT = "cut"
"""A fault: the connection ends without an answer."""

Fault = str | tuple[int, dict[str, str], bytes]
"""`CUT`, or an answer: status, headers, body."""


def problem(status: int, title: str, **more: object) -> Fault:
    """An error as Joblane's functions answer it."""
    body = {"type": "about:blank", "title": title, "status": status, **more}
    return status, {"Content-Type": "application/problem+json"}, json.dumps(body).encode()


def ok(value: object, status: int = 200) -> Fault:
    """A successful answer."""
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def gateway(status: int, message: str) -> Fault:
    """An error as API Gateway itself answers it."""
    return status, {"Content-Type": "application/json"}, json.dumps({"message": message}).encode()


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeJob:
    """A job and its output; a test changes it while a client looks."""

    data: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False

    def say(
        self,
        data: bytes | str,
        stream: str = "stdout",
        attempt: int = 1,
        level: Level | None = None,
    ) -> None:
        """Append one record."""
        from base64 import b64encode

        record: dict[str, Any] = {
            "epoch": attempt,
            "attempt": attempt,
            "seq": len(self.records),
            "stream": stream,
            "time": "2026-11-21T02:00:00.000Z",
        }
        if isinstance(data, bytes):
            record["base64"] = b64encode(data).decode()
        else:
            record["text"] = data
        if level is not None:
            record["level"] = level
        self.records.append(record)

    def end(self, state: str = "completed", **fields: object) -> None:
        """Let the job end: its state, exit code and reason."""
        self.data |= {"state": state, "exit_code": 0, **fields}
        self.complete = True


class FakeApi:
    """The server; `url` is where it is."""

    def __init__(self) -> None:
        self.jobs: dict[str, FakeJob] = {}
        self.requests: list[Request] = []
        self.faults: deque[Fault] = deque()
        """Used up by the next requests, one each."""
        self.answers: dict[str, Fault] = {}
        """Fixed answers by path, instead of the usual ones."""
        self.before: Callable[[Request], None] = lambda _request: None
        """Called with each request before it is answered."""
        self.on_submit: Callable[[FakeJob], None] = lambda job: job.end()
        """What becomes of a job that was submitted."""
        self.more: Callable[[Request], Fault | None] = lambda _request: None
        """Answers requests of which this file knows nothing; None for all others."""
        self._lock = threading.Lock()
        self._open: set[Any] = set()
        self._server: ThreadingHTTPServer | None = None
        self._held = socket.socket()
        """Keeps the port from others while nobody listens; it refuses connections then."""
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self._port: int = self._held.getsockname()[1]
        self._tls: ssl.SSLContext | None = None
        self.up()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._port}"

    def speak_tls(self, certificate: Path) -> None:
        """Listen again, with TLS; the file holds the key and the certificate."""
        self.down()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self.up()

    def up(self) -> None:
        """Listen, on the same port as before."""
        api = self

        class Handler(_Handler):
            fake = api

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            allow_reuse_address = True
            request_queue_size = 128  # tests call it by many threads at once

            def handle_error(self, *_: object) -> None:
                """A client may go away."""

        self._server = Server(("127.0.0.1", self._port), Handler)
        if self._tls:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Go away for good."""
        self.down()
        self._held.close()

    def down(self) -> None:
        """Refuse connections, and end those that are open."""
        if self._server is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None
        for handler in list(self._open):
            handler.hang_up()

    def add(self, job_id: str = "01J", **fields: object) -> FakeJob:
        """Put a job there, pending."""
        data = {
            "id": job_id,
            "tenant": "main",
            "state": "pending",
            "reason": "waits for an agent",
            "attempt": 1,
            "exit_code": None,
            "command": ["true"],
            "queue": "default",
            "priority": "default",
            "created_at": "2026-11-21T02:00:00.000Z",
            "something_new": {"a": 1},
            **fields,
        }
        self.jobs[job_id] = FakeJob(data)
        return self.jobs[job_id]

    def count(self, method: str, path: str) -> int:
        """How many such requests arrived."""
        return sum(1 for r in list(self.requests) if (r.method, r.path) == (method, path))

    def answer(self, request: Request) -> Fault:
        """Decide what a request gets."""
        if self.faults:
            return self.faults.popleft()
        if request.path in self.answers:
            return self.answers[request.path]
        return self.more(request) or self._usual(request)

    def _usual(self, request: Request) -> Fault:
        parts = request.path.strip("/").split("/")
        if request.method == "POST" and parts == ["v1", "jobs"]:
            with self._lock:  # of the number
                job = self.add(f"01J{len(self.jobs)}", **request.body)
            self.on_submit(job)
            return _json(202, {**job.data, "state": "pending"})
        if parts == ["v1", "jobs"]:
            return self._list(request)
        if len(parts) >= 3 and parts[2] in self.jobs:
            job = self.jobs[parts[2]]
            return _json(200, _log(job, request.query) if parts[3:] == ["logs"] else job.data)
        return problem(404, "Not Found", detail="there is no such job", instance="req-1")

    def _list(self, request: Request) -> Fault:
        limit, start = int(request.query.get("limit", "100")), int(request.query.get("next", "0"))
        found = [job.data for job in reversed(self.jobs.values())]
        end = start + limit
        page = {"entries": found[start:end], "limit": limit}
        return _json(200, {**page, "next": str(end) if end < len(found) else None})


def _log(job: FakeJob, query: dict[str, str]) -> dict[str, Any]:
    first = max(0, len(job.records) - int(query["tail"])) if "tail" in query else 0
    limit, start = int(query.get("limit", "100")), int(query.get("next", first))
    complete = job.complete
    entries = job.records[start : start + limit]
    end = start + len(entries)
    if (least := query.get("level")) is not None:
        entries = [each for each in entries if reaches(each.get("level"), cast("Level", least))]
    return {
        "entries": entries,
        "limit": limit,
        "next": str(end),
        "state": job.data["state"],
        "more": end < len(job.records),
        "complete": complete and end == len(job.records),
    }


def _json(status: int, value: object) -> Fault:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


class _Handler(Quiet, BaseHTTPRequestHandler):
    fake: FakeApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.fake._open.add(self)  # two halves of one fake

    def finish(self) -> None:
        self.fake._open.discard(self)
        super().finish()

    def hang_up(self) -> None:
        from contextlib import suppress
        from socket import SHUT_RDWR

        with suppress(OSError):
            self.connection.shutdown(SHUT_RDWR)

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        # What `curl -d` says of a body is not looked at, as by the API.
        is_json = self.headers.get("Content-Type", "").endswith(("json", "x-www-form-urlencoded"))
        self._answer((json.loads(raw) if is_json else raw) if raw else None)

    def do_PUT(self) -> None:
        self.do_POST()

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def _answer(self, body: object) -> None:
        parts = urlsplit(self.path)
        query = {name: ",".join(values) for name, values in parse_qs(parts.query).items()}
        request = Request(self.command, parts.path, query, dict(self.headers), body)
        self.fake.requests.append(request)
        self.fake.before(request)
        fault = self.fake.answer(request)
        if isinstance(fault, str):
            self.close_connection = True
            self.hang_up()
            return
        status, headers, content = fault
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
