"""Schedules of joblane.toml: what is refused, and how they reach the table and leave it."""

import json
import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from functions.requeue import handler as requeue
from functions.submission import handler as submission
from infra.declared import schedules
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.config import Config
from joblane.schedule.record import Schedule
from joblane.service.schedule import declared
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud, configure
from tests.support.requests import Api

NOON = 1_800_000_000.0
TOML = """
[tenants.acme]
[tenants.other]
[queues.default]
[queues.bulk]
tenants = ["other"]

[schedules.nightly]
tenant = "acme"
cron = "0 2 * * *"
zone = "Europe/Berlin"
[schedules.nightly.submission]
command = ["make", "backup"]
labels = { team = "web" }

[schedules.sundays]
tenant = "other"
cron = "0 4 * * 0"
[schedules.sundays.requeue]
queue = "bulk"
priority = "low"
"""


def config(**changes: Any) -> Config:
    """The configuration, with changes of the schedule `nightly`."""
    found = tomllib.loads(TOML)
    nightly = found["schedules"]["nightly"]
    nightly.update(changes)
    found["schedules"]["nightly"] = {n: v for n, v in nightly.items() if v is not None}
    return Config.model_validate(found)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cron": "@reboot"}, "schedules.nightly\n.*cron: must not be @reboot"),
        ({"zone": "Berlin"}, "zone: must be a name of the IANA"),
        ({"tenant": "nobody"}, "schedules.nightly.tenant names 'nobody'"),
        ({"every_s": 60}, "either cron or every_s"),
        ({"every_s": 30, "cron": None}, "every_s"),
        ({"submission": {"command": [], "labels": {}}}, "submission.command: required"),
        ({"submission": {"command": ["a"], "queue": "bulk"}}, "submission.queue names 'bulk'"),
        ({"submission": {"command": ["a"], "run_at": "2027-01-01T00:00:00Z"}}, "run_at"),
        ({"submission": None}, "either a submission or a requeue"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        config(**changes)


def every_minute(aws: Cloud, wanted: Config, clock: Clock) -> None:
    """Deploy a configuration, and let the function of every minute run."""
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_SCHEDULES": schedules(wanted)}
    settings = requeue.Settings.model_validate(environment)
    requeue.build(settings, aws.clients, clock).run(lambda: 60.0)


def stored(aws: Cloud, tenant: str = "acme", name: str = "nightly") -> Schedule | None:
    return ScheduleStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table).get(tenant, name)


def test_they_come_change_and_go_with_deployments(aws: Cloud) -> None:
    clock = Clock(NOON)
    every_minute(aws, config(), clock)
    first, other = stored(aws), stored(aws, "other", "sundays")
    assert first is not None
    assert other is not None
    assert (True, "make backup", None) == (first.declared, first.what, first.created_by)
    assert "requeue in queue bulk" == other.what
    every_minute(aws, config(), clock)
    assert first == stored(aws), "nothing is written again"
    every_minute(aws, config(cron="0 3 * * *"), clock)
    second = stored(aws)
    assert second is not None
    assert (2, first.created_ms) == (second.version, second.created_ms)
    assert second.due_ms != first.due_ms
    without = json.loads(config().model_dump_json())
    del without["schedules"]["nightly"]
    every_minute(aws, Config.model_validate(without), clock)
    assert stored(aws) is None
    assert stored(aws, "other", "sundays") is not None


def test_the_api_pauses_and_runs_them_and_changes_nothing_else(aws: Cloud) -> None:
    clock = Clock(NOON)
    every_minute(aws, config(), clock)
    api = Api(submission.build(configure(submission.Settings), aws.clients, clock))
    _, shown = api("GET", "/v1/schedules/nightly")
    assert (True, None) == (shown["declared"], shown["created_by"])
    for method, body in (("PATCH", {"overlap": "allow"}), ("DELETE", None)):
        answer = api.raw(method, "/v1/schedules/nightly", body)
        assert 409 == answer["statusCode"]
        assert "joblane.toml declares the schedule nightly" in answer["body"]
    assert 200 == api("POST", "/v1/schedules/nightly/pause")[0]
    status, result = api("POST", "/v1/schedules/nightly/run")
    assert 202 == status
    assert "nightly" == aws.job(result["job_id"]).schedule
    every_minute(aws, config(overlap="queue"), clock)
    after = stored(aws)
    assert after is not None
    assert after.paused is not None, "a deployment does not resume it"


def test_one_that_the_api_made_before_is_left(aws: Cloud) -> None:
    clock = Clock(NOON)
    api = Api(submission.build(configure(submission.Settings), aws.clients, clock))
    saved = {"name": "nightly", "every_s": 60, "submission": {"command": ["mine"]}}
    assert 201 == api("POST", "/v1/schedules", saved)[0]
    every_minute(aws, config(), clock)
    found = stored(aws)
    assert found is not None
    assert (False, "mine") == (found.declared, found.what)
    every_minute(aws, config().model_copy(update={"schedules": {}}), clock)
    assert stored(aws) is not None, "it is not the deployment's to delete"


def test_one_that_the_api_made_before_is_declared_within_a_minute_of_its_deletion(
    aws: Cloud,
) -> None:
    clock = Clock(NOON)
    api = Api(submission.build(configure(submission.Settings), aws.clients, clock))
    saved = {"name": "nightly", "every_s": 60, "submission": {"command": ["mine"]}}
    assert 201 == api("POST", "/v1/schedules", saved)[0]
    every_minute(aws, config(), clock)
    assert 204 == api.raw("DELETE", "/v1/schedules/nightly")["statusCode"]
    every_minute(aws, config(), clock)
    found = stored(aws)
    assert found is not None
    assert (True, "make backup") == (found.declared, found.what)


def test_one_that_a_deployment_wrote_in_part_is_removed_by_the_next(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function dies after it has written a schedule, and the next toml has that no more."""

    class Died(BaseException):
        pass

    def dies(*_: object) -> None:
        raise Died

    clock = Clock(NOON)
    with monkeypatch.context() as patch:
        patch.setattr(declared, "send_next", dies)
        with pytest.raises(Died):
            every_minute(aws, config(), clock)
    assert stored(aws) is not None
    every_minute(aws, config().model_copy(update={"schedules": {}}), clock)
    assert stored(aws) is None
