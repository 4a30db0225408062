"""What docs/how-to/route-jobs-to-queues.md says is so."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from infra.config import load_config
from infra.errors import ConfigError
from joblane.config import Config
from joblane.job.spec import Submission
from joblane.queue.filters import CompiledFilter
from joblane.queue.routing import VARIABLES, attributes
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi
from tests.support.requests import Api

PAGE = (Path(__file__).parents[4] / "docs/how-to/route-jobs-to-queues.md").read_text(
    encoding="utf-8"
)

NOON = 1_728_046_740  # 2024-10-04T12:59:00Z


def block(kind: str, number: int = 0) -> str:
    """A fenced block of the page."""
    blocks: list[str] = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return blocks[number]


def config(folder: Path, text: str) -> Config:
    file = folder / "joblane.toml"
    file.write_text(text, encoding="utf-8")
    return load_config(file)


def api_of(aws: Cloud, found: Config, client: str = "client-acme") -> Api:
    """The submission function with these queues, at noon."""
    queues = {name: list(queue.tenants) for name, queue in found.queues.items()}
    environment = FUNCTION_ENVIRONMENT | {
        "JOBLANE_QUEUES": json.dumps(queues),
        "JOBLANE_FILTERS": json.dumps(found.filters),
        "JOBLANE_DEFAULT_QUEUE": found.default_queue,
        "JOBLANE_DEFAULT_QUEUES": json.dumps(found.default_queues),
    }
    return Api(build(Settings.model_validate(environment), aws.clients, lambda: NOON), client)


def queue_of(api: Api, **fields: Any) -> str:
    status, choice = api("POST", "/v1/queues/explain", {"command": ["true"], **fields})
    assert 200 == status
    return str(choice["queue"])


def test_the_first_example_routes_as_the_page_says(aws: Cloud, tmp_path: Path) -> None:
    api = api_of(aws, config(tmp_path, "[tenants.main]\n" + block("toml")))
    big = {"resources": {"memory_mb": 4001}}
    assert ["default", "big"] == [queue_of(api), queue_of(api, **big)]
    assert ["long", "default"] == [queue_of(api, timeout_s=s) for s in (3601, 3600)]
    batch = {"labels": {"team": "batch-1"}, "run_at": "2024-10-05T03:00:00Z"}
    assert "night" == queue_of(api, **batch, **big)
    assert "big" == queue_of(api, labels=batch["labels"], **big)  # it is noon
    assert "default" == queue_of(api, queue="default", **big)


def test_the_command_prints_what_the_page_shows(
    aws: Cloud, tmp_path: Path, api: FakeApi, joblane: Joblane
) -> None:
    function = api_of(aws, config(tmp_path, "[tenants.main]\n" + block("toml")))
    words = shlex.split(block("sh"))[1:]
    fields = {"resources": {"memory_mb": 8000}, "labels": {"team": "web"}}
    submission = {"command": ["make", "all"], **fields}
    _, choice = function("POST", "/v1/queues/explain", submission)
    api.answers["/v1/queues/explain"] = (200, {}, json.dumps(choice).encode())
    done = joblane(*words)
    assert submission == api.requests[-1].body
    assert (0, block("text")) == (done.code, done.stdout.decode())


def test_the_table_has_the_variables() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w(), ]+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [(name, *variable) for name, variable in VARIABLES.items()] == rows


def test_the_mistake_is_told_as_the_page_shows(tmp_path: Path) -> None:
    text = block("toml").replace("> 4000", "> 0.5")
    with pytest.raises(ConfigError) as raised:
        config(tmp_path, text + "[tenants.main]\n")
    (line,) = raised.value.lines
    assert block("text", 1) == line.removeprefix(f"{tmp_path}/") + "\n"


ROWS: list[tuple[str, str, str, str]] = re.findall(
    r"^\| `([^`]+)` \| `([^`]+)` \| `(\{[^`]*\})` \| `(\{[^`]*\})` \|$", PAGE, re.MULTILINE
)


def test_the_translations_are_those_that_are_asked_for() -> None:
    words = " ".join(row[0] for row in ROWS)
    for word in ("=", "<>", "LIKE", "NOT LIKE", "BETWEEN", "NOT IN", "IS NULL", "IS NOT NULL"):
        assert word in words
    assert len(ROWS) == 13


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_translation_is_true_and_false_for_what_it_says(row: tuple[str, str, str, str]) -> None:
    _, expression, true_for, false_for = row
    compiled = CompiledFilter(expression)
    assert [True, False] == [compiled.matches(values(text)) for text in (true_for, false_for)]


def values(text: str) -> Any:
    fields = json.loads(text)
    command = {} if "type" in fields else {"command": ["true"]}
    spec = Submission.model_validate_json(json.dumps({**command, **fields}))
    return attributes("acme", "ci", spec, NOON * 1000)


def test_an_error_is_no_matter_where_the_rest_decides() -> None:
    (expression,) = re.findall(r"decides: `([^`]+)` is\ntrue in the night", PAGE)
    night = {**values("{}"), "hour": 3}
    assert CompiledFilter(expression).matches(night)


def test_tenants_have_queues_as_the_page_says(aws: Cloud, tmp_path: Path) -> None:
    found = config(tmp_path, block("toml", 2))
    acme, other = api_of(aws, found), api_of(aws, found, "client-other")
    big = {"resources": {"memory_mb": 8000}}
    assert "acme-urgent" == queue_of(acme, priority="high", **big)
    assert ["big", "acme"] == [queue_of(acme, **big), queue_of(acme)]
    assert ["big", "default"] == [queue_of(other, **big), queue_of(other, priority="high")]
