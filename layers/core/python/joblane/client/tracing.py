"""The trace context of the calling program, which a submission passes on to its job."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module

FIELDS = ("traceparent", "tracestate")


def trace_headers(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Headers with the trace context of the caller; empty if there is none.

    It is that of OpenTelemetry's current span, if the program uses OpenTelemetry, else that of
    the variables TRACEPARENT and TRACESTATE, which a job of Joblane has, too.
    """
    given: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:  # else there is no current span
        module = import_module("opentelemetry.trace.propagation.tracecontext")
        module.TraceContextTextMapPropagator().inject(given)
    if not given:
        given = {name: environment.get(name.upper(), "") for name in FIELDS}
    if not given.get("traceparent"):
        return {}
    return {name: text for name, text in given.items() if text and _fits_header(text)}


def _fits_header(text: str) -> bool:
    """Whether a text can be sent; the API ignores one that is not a trace context."""
    return text.isascii() and text.isprintable()
