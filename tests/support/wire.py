"""AWS behind a wire with faults: moto answers, and a script says what happens on the way."""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from ec2_agent.aws_calls.direct import DirectCalls
from ec2_agent.aws_calls.endpoint import AwsEndpoint
from tests.support.answering import Asked, Part, Then, answer

HOSTS = {
    "dynamodb": "dynamodb.us-east-1.amazonaws.com",
    "sqs": "sqs.us-east-1.amazonaws.com",
}
TARGETS = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}
VERSIONS = {"dynamodb": "1.0", "sqs": "1.0"}


class Fate(Enum):
    """What happens to a call."""

    DONE = "it is made and answered"
    NOT_MADE = "the connection ends before AWS has it"
    LOST = "it is made, and the connection ends before the answer"
    LATE = "it is made, and the answer takes for ever"
    CUT = "it is made, and the answer is cut"
    GARBLED = "it is made, and the answer is no JSON"
    FAILED = "AWS answers 500 and does nothing"
    THROTTLED = "AWS answers 400 and does nothing"


FAULTS = tuple(fate for fate in Fate if fate is not Fate.DONE)


_UNHEARD: dict[Fate, list[Part]] = {
    Fate.NOT_MADE: [Then.CLOSE],
    Fate.FAILED: [answer({"__type": "InternalServerError"}, "500 Internal Server Error")],
    Fate.THROTTLED: [answer({"__type": "ThrottlingException"}, "400 Bad Request")],
}

_SPOILT: dict[Fate, list[Part]] = {
    Fate.LOST: [Then.CLOSE],
    Fate.LATE: [Then.HANG],
    Fate.GARBLED: [answer(b"<html>")],
}


class Wire:
    """A script that makes each call in moto, as far as its fate lets it."""

    def __init__(self, client: Any, fates: Iterable[Fate] = ()) -> None:
        """`client` is botocore's; after `fates` every call is made and answered."""
        self._events = client.meta.events
        self.service: str = client.meta.service_model.service_name
        self.fates = deque(fates)

    def __call__(self, asked: Asked) -> list[Part]:
        """See `answering.Script`."""
        fate = self.fates.popleft() if self.fates else Fate.DONE
        if fate in _UNHEARD:
            return _UNHEARD[fate]
        answered = self._make_answer(asked)
        if fate is Fate.CUT:
            return [answered[:-1], Then.CLOSE]
        return _SPOILT.get(fate, [answered])

    def _make_answer(self, asked: Asked) -> bytes:
        """The answer of moto, which takes the request where botocore would send it."""
        url = f"https://{HOSTS[self.service]}/"
        request = AWSRequest("POST", url, asked.headers, asked.body).prepare()
        event = f"before-send.{self.service}.{asked.operation}"
        ((_, got),) = [
            (handler, found)
            for handler, found in self._events.emit(event, request=request)
            if found is not None
        ]
        status = f"{got.status_code} as moto says"
        return answer(got.content, status, **{"content-type": VERSIONS[self.service]})


def endpoint(service: str, port: int, source: Any = None) -> AwsEndpoint:
    """The endpoint of a service that a port of this host stands for."""
    return AwsEndpoint(
        host="127.0.0.1",
        port=port,
        authority=HOSTS[service],
        tls=None,
        region="us-east-1",
        service=service,
        target=TARGETS[service],
        content_type=f"application/x-amz-json-{VERSIONS[service]}",
        credentials=source or Credentials("AKIAEXAMPLE", "secret"),
    )


def calls_to(
    service: str,
    port: int,
    clock: Callable[[], float] = lambda: 0.0,
    dated: Callable[[str], None] = lambda _: None,
) -> DirectCalls:
    """Direct calls to a service that a port of this host stands for."""
    return DirectCalls(lambda: endpoint(service, port), lambda: 1.8e9, clock, dated)
