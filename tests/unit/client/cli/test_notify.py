"""The options --notify and --notify-on, and the page about notifications."""

import json
import re
import shlex
from pathlib import Path

import pytest

from joblane.client import webhooks
from joblane.notify.request import Notify
from joblane.notify.rules import RETRY_S
from joblane.notify.signature import sign
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi

PAGE = (Path(__file__).parents[4] / "docs/how-to/be-told-when-a-job-ends.md").read_text("utf-8")
ARN = "arn:aws:sns:eu-west-1:123456789012:nightly-jobs"


@pytest.mark.parametrize(
    ("options", "notify"),
    [
        ("--notify https://example.com/x", {"url": "https://example.com/x"}),
        (f"--notify {ARN}", {"sns": ARN}),
        ("--notify eventbridge", {"eventbridge": True}),
        (
            "--notify eventbridge --notify-on failed --notify-on dead,blocked",
            {"eventbridge": True, "on": ["failed", "dead", "blocked"]},
        ),
        ("--notify eventbridge --notify-members", {"eventbridge": True, "members": True}),
    ],
)
def test_the_options_are_the_field_of_the_submission(
    api: FakeApi, joblane: Joblane, options: str, notify: dict[str, object]
) -> None:
    for what in (["--", "true"], ["--type", "sleep"]):
        assert 0 == joblane("submit", *options.split(), *what).code
        assert notify == api.requests[-1].body["notify"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--notify-on failed", "--notify-on needs --notify"),
        ("--notify-members", "--notify-members needs --notify"),
        ("--notify me@example.com", "must be a URL with https://, the ARN of an SNS topic, or"),
    ],
)
def test_what_is_neither_is_refused_before_a_request(
    api: FakeApi, joblane: Joblane, options: str, problem: str
) -> None:
    ran = joblane("submit", *options.split(), "--", "true")
    assert 2 == ran.code
    assert problem in ran.said
    assert not api.requests


def test_the_commands_of_the_page_are_commands(api: FakeApi, joblane: Joblane) -> None:
    lines = [
        shlex.split(line)[1:]
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
        if line.startswith("joblane submit")
    ]
    assert 4 == len(lines)
    for line in lines:
        assert 0 == joblane(*line).code
        Notify.model_validate_json(json.dumps(api.requests[-1].body["notify"]))


def test_the_receiver_of_the_page_believes_what_is_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    seen: set[str] = set()

    def first_time(name: str) -> bool:
        known = name in seen
        seen.add(name)
        return not known

    names: dict[str, object] = {"first_time": first_time}
    exec(source, names)  # noqa: S102 - the page's own example
    receive = names["receive"]
    assert callable(receive)
    monkeypatch.setenv("SECRET", "a secret of thirty characters.")
    monkeypatch.setattr("time.time", lambda: 1000.0)
    body = b'{"id": "1", "job_id": "J", "state": "failed", "reason": "exit code 3"}'
    header = sign(body, ["a secret of thirty characters."], 1000)
    assert (204, "") == receive({"Joblane-Signature": header}, body)
    assert 400 == receive({"Joblane-Signature": header}, body + b" ")[0]
    assert webhooks.TOLERANCE_S == 300


def test_the_page_has_the_times_of_the_code() -> None:
    assert (10, 60, 300, 900, 1800, 3600, 7200, 14_400, 14_400) == RETRY_S
    said = "10 s, 1 min, 5 min, 15 min, 30 min, 1 h, 2 h and twice 4 h"
    assert said in PAGE
    assert f"{['nine', 'ten'][len(RETRY_S) - 8]} attempts within 12 hours" in PAGE
