"""`joblane resubmit --set`: a merge patch of the submission, of text and JSON."""

from typing import Any

import pytest
import typer

from joblane.client.cli.job.set_option import read_changes
from joblane.job.spec import Submission
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (["queue=bulk"], {"queue": "bulk"}),
        (["name=5"], {"name": "5"}),
        (["name=a=b"], {"name": "a=b"}),
        (["resources.memory_mb=2048"], {"resources": {"memory_mb": 2048}}),
        (["timeout_s=1.5", "restartable=false"], {"timeout_s": 1.5, "restartable": False}),
        (["env.A=b", "env.B=5", "env.C=true"], {"env": {"A": "b", "B": "5", "C": "true"}}),
        (['env={"A": "b", "C": ""}', "env.B=c"], {"env": {"A": "b", "C": "", "B": "c"}}),
        (["labels.team=007"], {"labels": {"team": "007"}}),
        (["secret_env.DB=ssm:/x/y"], {"secret_env": {"DB": "ssm:/x/y"}}),
        (["resources.cores=2"], {"resources": {"cores": "2"}}),
        (["params.url=https://a.b/?c=d"], {"params": {"url": "https://a.b/?c=d"}}),
        (["params.n=5", "params.id=007"], {"params": {"n": 5, "id": "007"}}),
        (['params.s="5"', "params.deep.x=[1]"], {"params": {"s": "5", "deep": {"x": [1]}}}),
        (["params.x=NaN"], {"params": {"x": "NaN"}}),
        (['command=["a", "b c"]'], {"command": ["a", "b c"]}),
        (["concurrency=per-customer"], {"concurrency": "per-customer"}),
        (["concurrency.max_active=2"], {"concurrency": {"max_active": 2}}),
        (["notify.url=https://a.b"], {"notify": {"url": "https://a.b"}}),
        (
            ["deadline=", "target=null", "env.A="],
            {"deadline": None, "target": None, "env": {"A": None}},
        ),
        (["params=", "type="], {"params": None, "type": None}),
        (["queue=a", "queue=b"], {"queue": "b"}),
        (["colour.shade=5", "color=red"], {"colour": {"shade": 5}, "color": "red"}),
        ([], {}),
    ],
)
def test_options_become_a_merge_patch(given: list[str], changes: dict[str, Any]):
    assert changes == read_changes(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["queue"], "write FIELD=VALUE"),
        (["=bulk"], "write FIELD=VALUE"),
        (["env..A=b"], "write FIELD=VALUE"),
        (["resources.memory_mb=2 GB"], "resources.memory_mb: must be JSON"),
        (["timeout_s=NaN"], "timeout_s: must be JSON"),
        (["command=sleep 5"], "command: must be JSON"),
        (["env=", "env.A=b"], "--set env.A: env is set as a whole by another one"),
    ],
)
def test_what_is_no_change_is_refused(given: list[str], said: str):
    with pytest.raises(typer.BadParameter, match=said):
        read_changes(given)


def test_times_are_written_as_for_a_submission():
    late = read_changes(["deadline=2100-01-01T00:00:00Z", "run_at=+5m"])
    assert "2100-01-01T00:00:00Z" == late["deadline"]
    assert late["run_at"].startswith("20")
    with pytest.raises(typer.BadParameter, match="--set deadline"):
        read_changes(["deadline=soon"])


@pytest.mark.parametrize("name", sorted(Submission.model_fields.keys() - {"run_at", "deadline"}))
def test_every_field_can_be_removed_and_set(name: str):
    assert {name: None} == read_changes([f"{name}="])
    try:
        changes = read_changes([f"{name}=x"])
    except typer.BadParameter:  # a field that is no text
        changes = read_changes([f"{name}=1"])
    assert {name} == changes.keys()


def test_changes_are_sent(api: FakeApi, joblane: Joblane) -> None:
    api.add("01J")
    new = {"id": "01K", "state": "pending", "reason": "waits"}
    api.answers["/v1/jobs/01J/resubmit"] = ok(new, 202)
    ran = joblane("resubmit", "01J", "--set", "queue=bulk", "--set", "env.A=b", "--reason", "x")
    assert (0, b"01K\n", "") == (ran.code, ran.stdout, ran.said)
    body = {"changes": {"queue": "bulk", "env": {"A": "b"}}, "reason": "x"}
    assert body == api.requests[-1].body


def test_an_option_that_cannot_be_read_sends_nothing(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("resubmit", "01J", "--set", "timeout_s=soon")
    assert 2 == ran.code
    assert "--set timeout_s: must be JSON, such as 512, true" in ran.said
    assert [] == api.requests
