"""Submissions that a key kept out: they are counted, and nothing is written for it."""

import json
import time
from functools import partial
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.deployment.metrics import OF_QUEUES
from tests.support.aws import Cloud, configure
from tests.support.meter import Meter
from tests.support.requests import Api

KEY = ["customer", "acme"]


@pytest.mark.parametrize(
    ("when_full", "status", "metric", "admission"),
    [
        ("reject", 409, "KeyRejected", "rejected"),
        ("coalesce", 200, "KeyCoalesced", "coalesced"),
    ],
)
def test_what_a_key_keeps_out_is_counted_without_a_write(
    aws: Cloud,
    meter: Meter,
    capsys: pytest.CaptureFixture[str],
    when_full: str,
    status: int,
    metric: str,
    admission: str,
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
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    (counted,) = [line for line in lines if "_aws" in line]
    assert (1, "default") == (counted[metric], counted["Queue"])
    assert metric in OF_QUEUES
    (said,) = [line for line in lines if line.get("message") == "key kept a submission out"]
    assert (admission, "acme", "default") == (said["admission"], said["tenant"], said["queue"])
    assert said["key"].startswith("command#")
    assert "customer" not in json.dumps(lines)
