"""Spans in the encoding of OTLP, protobuf, and the answers of endpoints.

By the official messages of `opentelemetry-proto`, which take 60 ms to import: only the function
`tracer` does.
"""

from collections.abc import Iterable, Mapping, Sequence

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import (
    SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
    SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK,
    ResourceSpans,
    ScopeSpans,
    Status,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Encoded

from joblane.job.spans import Kind, Span

_NS_A_MS = 1_000_000

_KINDS: Mapping[Kind, Encoded.SpanKind.ValueType] = {
    "internal": Encoded.SPAN_KIND_INTERNAL,
    "consumer": Encoded.SPAN_KIND_CONSUMER,
}

Value = str | int | float


class Otlp:
    """Encodes requests, and decodes answers."""

    def __init__(self, version: str, resource: Mapping[str, Value]) -> None:
        """`version` is Joblane's, `resource` what all spans have in common."""
        self._scope = InstrumentationScope(name="joblane", version=version)
        self._resource = Resource(attributes=_attributes(resource))

    def encode(self, found: Sequence[Span]) -> bytes:
        """Encode an export request."""
        of_scope = ScopeSpans(scope=self._scope, spans=map(_encode, found))
        of_resource = ResourceSpans(resource=self._resource, scope_spans=[of_scope])
        return ExportTraceServiceRequest(resource_spans=[of_resource]).SerializeToString()

    def count_rejected(self, answer: bytes) -> tuple[int, str]:
        """How many spans an answer rejects, and why; the text may be a warning for none.

        An answer that is not in protobuf, as some endpoints give, rejects nothing.
        """
        try:
            partial = ExportTraceServiceResponse.FromString(answer).partial_success
        except DecodeError:
            return 0, ""
        return partial.rejected_spans, partial.error_message


def _encode(span: Span) -> Encoded:
    flags = span.context.flags | SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    if span.remote:
        flags |= SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    orphan = span.top and not span.remote
    return Encoded(
        trace_id=bytes.fromhex(span.context.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=b"" if orphan else bytes.fromhex(span.context.parent_id),
        trace_state=span.context.state,
        flags=flags,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_ms * _NS_A_MS,
        end_time_unix_nano=span.end_ms * _NS_A_MS,
        attributes=_attributes(span.attributes),
        events=[
            Encoded.Event(
                name=event.name,
                time_unix_nano=event.at_ms * _NS_A_MS,
                attributes=_attributes(event.attributes),
            )
            for event in span.events
        ],
        status=None
        if span.error is None
        else Status(code=Status.STATUS_CODE_ERROR, message=span.error),
    )


def _attributes(found: Mapping[str, Value]) -> Iterable[KeyValue]:
    return [KeyValue(key=name, value=_value(value)) for name, value in found.items()]


def _value(value: Value) -> AnyValue:
    match value:
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
    return AnyValue(string_value=str(value))
