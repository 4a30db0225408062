"""A receiver of spans: an OTLP endpoint on this machine, which decodes by the official messages."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.http_server import Quiet, serving


@dataclass
class Answer:
    """What the endpoint answers."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    waits: threading.Event | None = None
    """Set when it may answer; None: at once."""


@dataclass
class Received:
    """A request."""

    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def request(self) -> ExportTraceServiceRequest:
        """Decode it. Raises DecodeError."""
        assert "gzip" == self.headers["content-encoding"]
        assert "application/x-protobuf" == self.headers["content-type"]
        return ExportTraceServiceRequest.FromString(gzip.decompress(self.body))

    @property
    def spans(self) -> list[Span]:
        """The spans, in the order of the request."""
        return [
            span
            for resource in self.request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def traces(self) -> set[str]:
        """The ids of the traces."""
        return {span.trace_id.hex() for span in self.spans}


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as Python has them."""
    found: dict[str, Any] = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        found[each.key] = getattr(each.value, kind)
    return found


class Collector:
    """It answers with the next of `answers`, then 200.

    `trace` is the only one whose requests get these answers and are kept, if it is set: spans of
    other tests may come, as late as the product tries them again.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.trace: str | None = None
        self.received: list[Received] = []
        collector = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = collector.answer(Received(self.path, headers, body))
                if answer.waits is not None:
                    answer.waits.wait(10)
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": len(answer.body)}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(answer.body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def answer(self, request: Received) -> Answer:
        """What a request is answered."""
        if self.trace is not None and self.trace not in request.traces:
            return Answer()
        self.received.append(request)
        return self.answers.pop(0) if self.answers else Answer()

    def spans(self, job_id: str) -> list[Span]:
        """All spans of a job that have come, the earliest first."""
        found = [span for each in list(self.received) for span in each.spans]
        of_job = [each for each in found if values(each.attributes)["joblane.job.id"] == job_id]
        return sorted(of_job, key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano))


@contextmanager
def collecting(*answers: Answer) -> Iterator[Collector]:
    """Receive spans until the end of the block."""
    collector = Collector(*answers)
    with serving(collector.server):
        yield collector
