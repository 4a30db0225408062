"""What the readers of the stream send to SQS has no character that SQS refuses."""

import re
from typing import Any

import pytest

from joblane.aws.export.queue import ExportBatch, ExportQueue
from joblane.aws.export.stream import Exported
from joblane.aws.notify.queue import NotifyQueue
from joblane.aws.trace.queue import SpanBatch, TraceQueue
from joblane.job.spans import Ended
from joblane.state.lifecycle import State

REFUSED = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""As SendMessage documents it: a body with one is InvalidMessageContents."""

ODD = "a\ufffe\uffffb\x00\u20ac\U0001ffff"


class Sqs:
    """Refuses bodies as SQS does."""

    def __init__(self) -> None:
        self.bodies = list[str]()

    def send_message(self, **request: Any) -> None:
        """Take a message."""
        assert not REFUSED.search(request["MessageBody"])
        self.bodies.append(request["MessageBody"])

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Take messages."""
        for entry in request["Entries"]:
            self.send_message(**entry)
        return {}


@pytest.fixture
def sqs() -> Any:
    """A client."""
    return Sqs()


def test_an_ended_job_is_sent_to_the_export(sqs: Any):
    found = Exported(record="ended", sequence=1, row={"reason": {"S": ODD}})
    ExportQueue(sqs, "url").send([found])
    assert [(found,)] == [ExportBatch.model_validate_json(each).exported for each in sqs.bodies]


def test_an_ended_job_is_sent_to_the_traces(sqs: Any):
    found = Ended(
        job_id="A",
        tenant="acme",
        queue="default",
        before=State.ACTIVE,
        after=State.FAILED,
        epoch=1,
        attempt=1,
        timeline=(ODD,),
    )
    TraceQueue(sqs, "url").send([found])
    assert [(found,)] == [SpanBatch.model_validate_json(each).ended for each in sqs.bodies]


def test_a_notification_is_sent(sqs: Any):
    found = Exported(record="ended", sequence=1, row={"reason": {"S": ODD}})
    NotifyQueue(sqs, "url").send([("acme", found.model_dump_json())])
    assert [found] == [Exported.model_validate_json(each) for each in sqs.bodies]
