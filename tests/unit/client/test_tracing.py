"""A submission passes on the trace of the program that makes it."""

import asyncio
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from joblane import AsyncClient, Client
from joblane.client.tracing import trace_headers
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE"
SPAN = NonRecordingSpan(
    SpanContext(
        trace_id=int("a" * 32, 16),
        span_id=int("b" * 16, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState([("rojo", "1")]),
    )
)
OTHER = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", STATE)


def sent(api: FakeApi) -> list[tuple[str | None, str | None]]:
    """The context of each request that arrived."""
    found = [{name.lower(): text for name, text in each.headers.items()} for each in api.requests]
    return [(each.get("traceparent"), each.get("tracestate")) for each in found]


def test_the_sdk_passes_on_the_environment_with_submissions_alone(api: FakeApi, connect: Connect):
    with connect(api.url, "secret") as client:
        client.get(client.submit(["true"]).id)
    assert [(PARENT, STATE), (None, None)] == sent(api)
    assert {"command": ["true"]} == api.requests[0].body


def test_the_current_span_counts_before_the_environment(api: FakeApi) -> None:
    api.answers["/v1/jobs/batch"] = ok({"entries": []})
    with Client(api.url, "secret") as client:
        with trace.use_span(SPAN):
            client.submit(["true"])
            client.submit_batch([{"command": ["true"]}])
        client.submit(["true"])
    assert [(OTHER, "rojo=1"), (OTHER, "rojo=1"), (PARENT, STATE)] == sent(api)


def test_each_task_of_an_async_client_has_the_span_of_its_own(api: FakeApi) -> None:
    async def submit(client: AsyncClient, *, in_span: bool) -> None:
        with trace.use_span(SPAN) if in_span else nullcontext():
            await client.submit(["true"])

    async def run() -> None:
        async with AsyncClient(api.url, "secret") as client:
            await asyncio.gather(*(submit(client, in_span=in_span) for in_span in (True, False)))

    asyncio.run(run())
    assert [(PARENT, STATE), (OTHER, "rojo=1")] == sorted(sent(api), key=str)


@pytest.mark.parametrize("verb", ["submit", "run"])
def test_the_command_line_passes_on_its_environment(api: FakeApi, joblane: Joblane, verb: str):
    api.on_submit = lambda job: job.end("completed", exit_code=0)
    assert 0 == joblane(verb, "--", "true").code
    assert (PARENT, STATE) == sent(api)[0]


@pytest.mark.parametrize(
    ("environment", "headers"),
    [
        ({}, {}),
        ({"TRACEPARENT": "", "TRACESTATE": STATE}, {}),
        ({"TRACEPARENT": PARENT}, {"traceparent": PARENT}),
        ({"TRACEPARENT": PARENT, "TRACESTATE": "a=\n"}, {"traceparent": PARENT}),
        ({"TRACEPARENT": "\udcff"}, {}),
    ],
)
def test_only_what_a_header_can_hold_is_sent(environment: dict[str, str], headers: dict[str, str]):
    assert headers == trace_headers(environment)


def test_a_program_without_opentelemetry_does_not_load_it() -> None:
    """It is installed here; loading it takes as long as all else that a submission does."""
    code = (
        "import sys\n"
        "from joblane import Client\n"
        "from joblane.client.tracing import trace_headers\n"
        "assert trace_headers()\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=True)
