"""Notices of the instance's end: read from a service that answers, hangs, lies or is not there."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ec2_agent.host.metadata import TIMEOUT_S, Metadata, MetadataUnavailable
from ec2_agent.presence.notices import SPOT_DRAIN_S, Kind, Notice, read_notice, watch
from tests.support.http_server import Quiet, serving

SPOT = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
LIFECYCLE = "/latest/meta-data/autoscaling/target-lifecycle-state"


class Service(ThreadingHTTPServer):
    """The metadata service's paths; a token is needed, and one expires when a test says so."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.says: dict[str, str] = {}
        self.token = "token-1"
        self.tokens_given = 0
        self.status: int | None = None
        self.asked = threading.Semaphore(0)
        """Released by every request for a path."""
        self.answers = threading.Event()
        """Unset while the service hangs."""
        self.answers.set()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(Quiet, BaseHTTPRequestHandler):
    """One request."""

    server: Service

    def do_PUT(self) -> None:
        """Give a token."""
        assert self.path == "/latest/api/token"
        assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
        self.server.tokens_given += 1
        self._answer(200, self.server.token)

    def do_GET(self) -> None:
        """Say what the test wants to be said."""
        self.server.asked.release()
        self.server.answers.wait()
        if self.server.status is not None:
            self._answer(self.server.status, "<html>")
        elif self.headers["X-aws-ec2-metadata-token"] != self.server.token:
            self._answer(401, "")
        elif self.path in self.server.says:
            self._answer(200, self.server.says[self.path])
        else:
            self._answer(404, "")

    def _answer(self, status: int, body: str) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())


@pytest.fixture(name="service")
def _service() -> Iterator[Service]:
    service = Service()
    with serving(service):
        yield service


def test_an_instance_that_goes_on_has_no_notice_and_one_token(service: Service):
    service.says[LIFECYCLE] = "InService"
    metadata = Metadata(service.url)
    assert [None, None] == [read_notice(metadata), read_notice(metadata)]
    assert 1 == service.tokens_given


@pytest.mark.parametrize(
    ("path", "says", "notice"),
    [
        (
            SPOT,
            '{"action": "terminate", "time": "2026-11-21T12:00:00Z"}',
            Notice(Kind.SPOT, "2026-11-21T12:00:00Z"),
        ),
        (SPOT, "not what the documentation says", Notice(Kind.SPOT)),
        (SPOT, "[1]", Notice(Kind.SPOT)),
        (LIFECYCLE, "Terminated", Notice(Kind.SCALE_IN)),
        (
            REBALANCE,
            '{"noticeTime": "2026-11-21T12:00:00Z"}',
            Notice(Kind.REBALANCE, "2026-11-21T12:00:00Z"),
        ),
    ],
)
def test_each_notice_is_read(service: Service, path: str, says: str, notice: Notice):
    service.says[path] = says
    assert notice == read_notice(Metadata(service.url))


def test_the_most_urgent_of_several_notices_counts(service: Service):
    service.says |= {SPOT: "{}", LIFECYCLE: "Terminated", REBALANCE: "{}"}
    assert Notice(Kind.SPOT) == read_notice(Metadata(service.url))


def test_a_token_that_expired_is_replaced_at_once(service: Service):
    """Six hours on, notices would be silent until the next look."""
    metadata = Metadata(service.url)
    assert read_notice(metadata) is None
    service.token = "token-2"
    assert read_notice(metadata) is None
    assert 2 == service.tokens_given


def test_a_token_is_renewed_before_its_end(service: Service):
    now = [1000.0]
    metadata = Metadata(service.url, lambda: now[0])
    assert read_notice(metadata) is None
    now[0] += 21_600 - 301
    assert read_notice(metadata) is None
    assert 1 == service.tokens_given
    now[0] += 2
    assert read_notice(metadata) is None
    assert 2 == service.tokens_given


@pytest.mark.parametrize("status", [400, 403, 500, 503, 302])
def test_trouble_of_the_service_is_silence(service: Service, status: int):
    service.status = status
    with pytest.raises(MetadataUnavailable):
        read_notice(Metadata(service.url))


def test_a_service_that_hangs_is_given_up_within_a_second(service: Service):
    service.answers.clear()
    with pytest.raises(MetadataUnavailable, match="ReadTimeoutError"):
        read_notice(Metadata(service.url))
    service.answers.set()
    assert 2 * TIMEOUT_S <= 1  # a token, and the path that hangs


def test_nobody_there_is_silence():
    with pytest.raises(MetadataUnavailable):
        read_notice(Metadata("http://127.0.0.1:9"))


def test_the_watch_hands_each_notice_on_once_and_a_more_urgent_one_too(
    service: Service,
):
    seen: list[Kind] = []

    async def look() -> None:
        changed = asyncio.Event()

        def on_notice(notice: Notice) -> None:
            seen.append(notice.kind)
            changed.set()

        watching = asyncio.create_task(watch(Metadata(service.url), on_notice, 0.01))
        for path in (REBALANCE, SPOT):
            service.says[path] = "{}"
            await asyncio.wait_for(changed.wait(), 5)
            changed.clear()
        while service.asked.acquire(blocking=False):
            pass
        for _ in range(9):  # three times each path
            await asyncio.to_thread(service.asked.acquire)
        watching.cancel()

    asyncio.run(look())
    assert [Kind.REBALANCE, Kind.SPOT] == seen


def test_a_spot_notice_shortens_a_long_drain_and_no_notice_lengthens_one():
    assert (SPOT_DRAIN_S, 5) == (Notice(Kind.SPOT).drain_s(600), Notice(Kind.SPOT).drain_s(5))
    assert 600 == Notice(Kind.SCALE_IN).drain_s(600)
