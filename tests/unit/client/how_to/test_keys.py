"""What docs/how-to/limit-concurrency-by-key.md says is so."""

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.config import Config
from joblane.job.spec import Submission
from joblane.key.policy import Concurrency
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi
from tests.support.requests import Api

PAGE = (Path(__file__).parents[4] / "docs/how-to/limit-concurrency-by-key.md").read_text(
    encoding="utf-8"
)


def block(kind: str, number: int = 0) -> str:
    """A fenced block of the page."""
    blocks: list[str] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return blocks[number]


def test_the_command_and_the_json_are_the_same_submission(api: FakeApi, joblane: Joblane) -> None:
    command = block("sh").split()
    assert joblane(*command[1:]).code == 0
    body: dict[str, Any] = json.loads(block("json"))
    assert {**api.requests[-1].body["concurrency"], "max_active": 1} == body["concurrency"]
    Submission.model_validate_json(json.dumps(body))


def test_the_table_has_the_limits_and_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| `?([\w-]+)`? \|$", PAGE, re.MULTILINE)
    limits = Concurrency.model_validate_json('{"key": ["a"]}').limits.model_dump()
    assert {name: str(value) for name, value in limits.items()} == dict(rows)


@pytest.mark.usefixtures("aws")
def test_the_policy_takes_the_label_and_names_it_where_it_is_missing(aws: Cloud) -> None:
    toml = f"""[tenants.main]\n[queues.default]\n{block("toml")}"""
    config = Config.model_validate(tomllib.loads(toml))
    policies = {name: policy.model_dump() for name, policy in config.concurrency.items()}
    settings = {**FUNCTION_ENVIRONMENT, "JOBLANE_CONCURRENCY": json.dumps(policies)}
    api = Api(build(Settings.model_validate(settings), aws.clients, time.time))
    body = {"command": ["make", "sync"], "concurrency": "per-customer"}
    status, problem = api("POST", "/v1/jobs", body)
    assert (400, "labels.customer") == (status, problem["errors"][0]["field"])
    states = [
        api("POST", "/v1/jobs", {**body, "labels": {"customer": "acme"}})[1].get("state")
        for _ in range(12)
    ]
    assert ["pending", *["waiting"] * 10, None] == states
