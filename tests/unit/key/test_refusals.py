"""Submissions that a key kept out: they are counted, and nothing is written for it."""

import json
import time
from functools import partial
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.metrics import Metrics
from joblane.deployment.metrics import OF_QUEUES
from joblane.job.head import make_head
from joblane.key.policy import Concurrency
from joblane.key.request import KeyRequest
from joblane.key.segments import key_hash
from joblane.service.key.refusals import KeyRefusals
from tests.support.aws import Cloud, configure
from tests.support.jobs import JOB, submission
from tests.support.meter import Meter
from tests.support.requests import Api

KEY = ["customer", "acme"]


@pytest.mark.parametrize(
    ("when_full", "status", "metric"),
    [("reject", 409, "KeyRejected"), ("coalesce", 200, "KeyCoalesced")],
)
def test_what_a_key_keeps_out_is_counted_without_a_write(
    aws: Cloud,
    meter: Meter,
    capsys: pytest.CaptureFixture[str],
    when_full: str,
    status: int,
    metric: str,
):
    settings = configure(Settings).model_copy(update={"metrics": True})
    api = Api(build(settings, aws.clients, time.time))
    submit = partial(
        api,
        "POST",
        "/v1/jobs",
        {"command": ["true"], "concurrency": {"key": KEY, "when_full": when_full}},
    )
    assert 202 == submit()[0]
    capsys.readouterr()
    meter.reset()
    assert status == submit()[0]
    assert 0 == meter.write_units
    printed = [line for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    (counted,) = map(json.loads, printed)
    assert (1, "default") == (counted[metric], counted["Queue"])
    assert metric in OF_QUEUES


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def info(self, msg: object, **fields: Any) -> None:
        """Keep a line."""
        self.kept.append({"message": msg, **fields})

    warning = error = exception = info


def test_the_line_names_the_key_by_its_hash():
    log, written = Lines(), list[str]()
    concurrency = {"key": KEY}
    head = make_head(JOB, "acme", submission(concurrency=concurrency), 1)
    request = KeyRequest.from_submission(Concurrency.model_validate(concurrency, strict=False))
    refusals = KeyRefusals(log, Metrics(on=False, write=written.append), "joblane")
    refusals.note(head, request, "coalesced")
    (line,) = log.kept
    assert line == {
        "message": "key kept a submission out",
        "admission": "coalesced",
        "tenant": "acme",
        "queue": "default",
        "key": f"command#{key_hash(KEY)}",
    }
    assert [] == written
