"""Spans in the encoding of OTLP, decoded by its official messages, and the answers of endpoints."""

import gzip

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Decoded
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from joblane.http.otlp import Otlp
from joblane.job.spans import Span, SpanEvent
from joblane.state.trace import TraceContext
from tests.support.collector import Received, values

CONTEXT = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1, "rojo=1,a=b")
ID = "53995c3f42cd8ad8"
HAS_REMOTE, IS_REMOTE = 0x100, 0x200
OTLP = Otlp("1.2.3", {"service.name": "joblane", "cloud.provider": "aws"})


def span(**fields: object) -> Span:
    """A span of a second."""
    known = {
        "name": "process default",
        "span_id": ID,
        "context": CONTEXT,
        "start_ms": 1_800_000_000_001,
        "end_ms": 1_800_000_001_001,
        "attributes": {},
    }
    return Span(**{**known, **fields})  # type: ignore[arg-type]


def decode_encoded(what: Span) -> Decoded:
    """Encode it and decode it."""
    request = ExportTraceServiceRequest.FromString(OTLP.encode([what]))
    ((found,),) = (scope.spans for each in request.resource_spans for scope in each.scope_spans)
    return found


def test_a_request_says_once_who_made_its_spans():
    request = ExportTraceServiceRequest.FromString(OTLP.encode([span(), span()]))
    (of_resource,) = request.resource_spans
    assert {"service.name": "joblane", "cloud.provider": "aws"} == values(
        of_resource.resource.attributes
    )
    (of_scope,) = of_resource.scope_spans
    assert ("joblane", "1.2.3", 2) == (
        of_scope.scope.name,
        of_scope.scope.version,
        len(of_scope.spans),
    )


def test_a_span_has_its_place_in_the_trace_its_times_and_its_state():
    found = decode_encoded(span(kind="consumer"))
    assert (CONTEXT.trace_id, ID, CONTEXT.parent_id, "rojo=1,a=b") == (
        found.trace_id.hex(),
        found.span_id.hex(),
        found.parent_span_id.hex(),
        found.trace_state,
    )
    assert (1_800_000_000_001_000_000, 1_800_000_001_001_000_000) == (
        found.start_time_unix_nano,
        found.end_time_unix_nano,
    )
    assert ("process default", Decoded.SPAN_KIND_CONSUMER) == (found.name, found.kind)
    assert Decoded.SPAN_KIND_INTERNAL == decode_encoded(span()).kind
    assert Status.STATUS_CODE_UNSET == found.status.code


def test_only_the_top_span_of_a_job_without_a_caller_has_no_parent():
    assert b"" == decode_encoded(span(top=True)).parent_span_id
    assert CONTEXT.parent_id == decode_encoded(span(top=True, remote=True)).parent_span_id.hex()
    assert CONTEXT.parent_id == decode_encoded(span()).parent_span_id.hex()


def test_flags_say_whether_the_parent_is_elsewhere():
    assert CONTEXT.flags | HAS_REMOTE == decode_encoded(span()).flags
    assert (
        CONTEXT.flags | HAS_REMOTE | IS_REMOTE == decode_encoded(span(top=True, remote=True)).flags
    )


def test_an_error_has_its_text():
    status = decode_encoded(span(error="exit code 3")).status
    assert (Status.STATUS_CODE_ERROR, "exit code 3") == (status.code, status.message)


def test_attributes_keep_their_types_and_events_their_times():
    given = {"a": "text", "b": 3, "c": 0.5, "d": -(2**40)}
    found = decode_encoded(
        span(attributes=given, events=(SpanEvent("joblane.retry", 1_800, {"n": 2}),))
    )
    assert given == values(found.attributes)
    assert {str: "a", int: "b", float: "c"} == {
        type(value): name for name, value in values(found.attributes).items() if name != "d"
    }
    (event,) = found.events
    assert ("joblane.retry", 1_800_000_000, {"n": 2}) == (
        event.name,
        event.time_unix_nano,
        values(event.attributes),
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", (0, "")),
        (b'{"partialSuccess":{}}', (0, "")),  # JSON, which some endpoints answer to protobuf
        (b"<html>", (0, "")),
        (
            ExportTraceServiceResponse(
                partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
            ).SerializeToString(),
            (2, "too old"),
        ),
    ],
)
def test_what_an_answer_rejects(answer: bytes, expected: tuple[int, str]):
    assert expected == OTLP.count_rejected(answer)


def test_the_collector_of_the_tests_reads_what_a_request_has():
    headers = {"content-encoding": "gzip", "content-type": "application/x-protobuf"}
    body = gzip.compress(OTLP.encode([span(), span(name="wait pending")]))
    names = [each.name for each in Received("/", headers, body).spans]
    assert ["process default", "wait pending"] == names
