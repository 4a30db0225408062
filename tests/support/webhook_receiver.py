"""Receivers of webhooks on this machine, and what is delivered to them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from joblane.contract.job_events import Delivery, job_event
from joblane.job.head import make_head
from joblane.notify.request import Notify
from joblane.notify.rules import NotifyRules
from joblane.service.notify.notifier import NotDelivered
from joblane.service.notify.webhook import Webhooks
from joblane.service.outbound import Guard
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME
from tests.support.http_server import Quiet, serving
from tests.support.jobs import JOB, submission

NOW = 1_800_000_000.0
SECRET = "a secret of thirty characters."
REFERENCE = f"{NAME}/acme/notify"
RULES = NotifyRules.model_validate_json(FUNCTION_ENVIRONMENT["JOBLANE_NOTIFY"])
EVENT = job_event(
    make_head(JOB, "acme", submission(name="nightly"), int(NOW) * 1000),
    "failed",
    None,
    7,
    NAME,
    None,
)
Answer = Callable[[BaseHTTPRequestHandler], None]


class Receiver:
    """A receiver of webhooks on this machine."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                answer(self)

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?x=1"


@contextmanager
def receiving(answer: Answer) -> Iterator[Receiver]:
    """Receive webhooks, and answer them so."""
    receiver = Receiver(answer)
    with serving(receiver.server):
        yield receiver


def status(code: int, **headers: str) -> Answer:
    """Answer with this status."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()

    return answer


def delivery(**notify: Any) -> Delivery:
    """A delivery of the event."""
    return Delivery(notify=Notify(**notify), events=(EVENT,))


def record(what: Delivery, receives: int = 1, number: int = 1) -> dict[str, Any]:
    """A record of an event of SQS."""
    return {
        "messageId": f"m{number}",
        "receiptHandle": f"r{number}",
        "body": what.model_dump_json(),
        "attributes": {"ApproximateReceiveCount": str(receives)},
    }


def webhooks(guard: Guard | None = None, secret: str = SECRET, **options: Any) -> Webhooks:
    """What sends webhooks, to this machine too."""
    allowed = guard or Guard(networks=RULES.allow_networks)
    return Webhooks(RULES, lambda *_: secret, allowed, lambda: NOW, **options)


def failure_of(channel: Webhooks, url: str) -> str:
    """Why a webhook is not delivered."""
    with pytest.raises(NotDelivered) as refusal:
        channel.deliver(delivery(url=url), 1)
    return str(refusal.value)
