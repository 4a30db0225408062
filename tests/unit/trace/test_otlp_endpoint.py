"""Posting spans: what each status means, headers from a secret, and when to try again."""

import socket
import threading
from collections.abc import Callable
from email.utils import formatdate

import pytest

from joblane.service.trace.otlp_endpoint import (
    NotExported,
    OtlpEndpoint,
    SpansRefused,
    after_s,
    parse_headers,
)
from tests.support.collector import Answer, collecting

NOW = 1_800_000_000.0


def endpoint(
    url: str, *secrets: str, timeout_s: float = 10.0, clock: Callable[[], float] = lambda: NOW
) -> OtlpEndpoint:
    """An endpoint whose headers are the next secret each time that they are read."""
    left = list(secrets)
    read = (lambda: left.pop(0)) if secrets else None
    return OtlpEndpoint(url, read, clock, timeout_s=timeout_s)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_takes_the_spans(status: int):
    with collecting(Answer(status)) as collector:
        assert b"" == endpoint(collector.url).post(b"spans")
    (received,) = collector.received
    assert "/v1/traces" == received.path


def test_the_answer_is_returned():
    with collecting(Answer(body=b"partial")) as collector:
        assert b"partial" == endpoint(collector.url).post(b"")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_be_taken_later_says_when(status: int):
    with collecting(Answer(status, {"Retry-After": "7"}), Answer(status)) as collector:
        said, unsaid = (pytest.raises(NotExported, match=f"answers {status}") for _ in range(2))
        there = endpoint(collector.url)
        with said as first:
            there.post(b"")
        with unsaid as second:
            there.post(b"")
    assert (7, None) == (first.value.after_s, second.value.after_s)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 413, 500, 501])
def test_everything_else_is_refused_and_no_redirect_is_followed(status: int):
    with collecting() as inner, collecting(Answer(status, {"Location": inner.url})) as collector:
        with pytest.raises(SpansRefused, match=f"the endpoint answers {status}"):
            endpoint(collector.url, "a=b").post(b"")
        assert [] == inner.received
        assert 1 == len(collector.received)


def test_an_endpoint_that_is_down_or_does_not_answer_is_tried_again():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NotExported, match="the endpoint: NewConnectionError"):
        endpoint(f"http://127.0.0.1:{port}/").post(b"")
    free = threading.Event()
    with collecting(Answer(waits=free)) as collector:
        with pytest.raises(NotExported, match="the endpoint: ReadTimeoutError"):
            endpoint(collector.url, timeout_s=0.2).post(b"")
        free.set()


def test_tls_that_fails_is_tried_again():
    with collecting() as collector, pytest.raises(NotExported, match="the endpoint: SSLError"):
        endpoint(collector.url.replace("http:", "https:")).post(b"")
    assert [] == collector.received


def test_headers_are_read_once_and_again_when_they_are_old():
    now = [NOW]
    with collecting() as collector:
        there = endpoint(collector.url, "key=one", "key=two", clock=lambda: now[0])
        for at in (NOW, NOW + 299, NOW + 301):
            now[0] = at
            there.post(b"")
    assert ["one", "one", "two"] == [each.headers["key"] for each in collector.received]


def test_a_key_that_was_changed_is_read_again_when_it_is_refused():
    with collecting(Answer(), Answer(401)) as collector:
        there = endpoint(collector.url, "key=old", "key=new")
        there.post(b"")
        there.post(b"")
    assert ["old", "old", "new"] == [each.headers["key"] for each in collector.received]


def test_a_key_that_was_not_changed_is_refused_once():
    with collecting(Answer(), Answer(403)) as collector:
        there = endpoint(collector.url, "key=old", "key=old")
        there.post(b"")
        with pytest.raises(SpansRefused, match="the endpoint answers 403"):
            there.post(b"")
    assert 2 == len(collector.received)


def test_headers_do_not_replace_those_that_say_what_the_body_is():
    with collecting() as collector:
        endpoint(collector.url, "Content-Type=text/plain,User-Agent=mine,Authorization=a b").post(
            b""
        )
    (received,) = collector.received
    assert ("application/x-protobuf", "mine", "a b") == tuple(
        received.headers[name] for name in ("content-type", "user-agent", "authorization")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("api-key=abc", {"api-key": "abc"}),
        (" a = 1 , b=2,", {"a": "1", "b": "2"}),
        ("Authorization=Basic%20dXNlcjpwYXNz%3D%3D", {"Authorization": "Basic dXNlcjpwYXNz=="}),
        ("Authorization=Bearer a=b", {"Authorization": "Bearer a=b"}),
    ],
)
def test_headers_are_those_of_the_variable_of_opentelemetry(text: str, expected: dict[str, str]):
    assert expected == parse_headers(text)


@pytest.mark.parametrize(
    "text", ["hunter2", "=hunter2", "a b=hunter2", "a=hunter2%0d%0aX: y", "ä=hunter2", "a=hunter2ä"]
)
def test_what_is_no_header_is_not_repeated_in_the_error(text: str):
    with pytest.raises(NotExported, match="must be name=value,name=value") as refusal:
        parse_headers(text)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("0", 0),
        (" 30 ", 30),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 90, usegmt=True), 0),
        ("99999999999999999999", None),
    ],
)
def test_retry_after_is_a_number_or_a_time(value: str | None, expected: int | None):
    assert expected == after_s(value, NOW)
