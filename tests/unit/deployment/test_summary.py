"""The function `status`: the summary of a deployment, for a tenant and for the role platform."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger

from functions.status.handler import Settings, build
from joblane import __version__
from joblane.aws.fleet.agents import PER_SHARD, SHARDS
from joblane.aws.queue.usage import UploadStore, UsageStore
from joblane.contract.access import ROLES, SCOPES
from joblane.contract.route_tables.agents import AGENT_ROUTES
from joblane.deployment.names import table_name
from joblane.http.application import Application
from joblane.http.request_jobs import RequestJobs
from joblane.queue.usage import MEBIBYTE, Account, Accounts, Figures
from joblane.state.lease import Heartbeat
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud, configure
from tests.support.meter import Meter
from tests.support.requests import Api

NOW = 1_800_014_400
NOW_MS = NOW * 1000


def status(aws: Cloud, client_id: str = "client-acme", **settings: str) -> Api:
    environment = {**FUNCTION_ENVIRONMENT, **settings}
    built = build(Settings.model_validate(environment), aws.clients, lambda: NOW)
    return Api(built, client_id)


def summary(api: Api) -> dict[str, Any]:
    code, body = api("GET", "/v1/summary")
    assert 200 == code, body
    found: dict[str, Any] = body
    return found


def agent(name: str, *queues: str) -> Heartbeat:
    return Heartbeat(name, 0, NOW_MS - 5000, 4, 1, queues or ("default",), "full", "0.1.0")


def test_it_names_the_caller_and_the_deployment(aws: Cloud):
    found = summary(status(aws))
    assert {
        "kind": "machine",
        "name": "ci",
        "tenant": "acme",
        "role": "admin",
        "scopes": [scope for scope in SCOPES if scope in ROLES["admin"]],
    } == found["caller"]
    assert ("2027-01-15T12:00:00.000Z", __version__, NAME) == (
        found["now"],
        found["version"],
        found["deployment"],
    )
    assert [] == found["links"]
    assert {} == found["prices"]


def test_the_role_platform_has_no_jobs_and_no_limits(aws: Cloud):
    found = summary(status(aws, "client-platform"))
    assert (None, "platform") == (found["caller"]["tenant"], found["caller"]["role"])
    assert (None, []) == (found["jobs"], found["limits"])


def test_limits_are_the_tenants_with_what_is_counted(aws: Cloud):
    limits = '{"default": {"jobs_waiting": 50}, "tenants": {"acme": {"output_mb_per_day": 7}}}'
    store = UsageStore(aws.clients.make("dynamodb"), table_name(NAME, "counters"))
    figures = Figures(3, NOW // 86_400, 2 * MEBIBYTE, 5 * MEBIBYTE)
    uploads = UploadStore(aws.clients.make("dynamodb"), table_name(NAME, "counters"))
    uploads.add("acme", NOW // 86_400, 6 * MEBIBYTE, 9 * MEBIBYTE)
    own = Account(0, Figures(), figures, NOW // 60)
    store.store("acme", replace(Accounts.new(NOW // 60), figures=own), 0)
    found = {
        each["limit"]: (each["allowed"], each["current"])
        for each in summary(status(aws, JOBLANE_LIMITS=limits))["limits"]
    }
    assert {
        "jobs_running": (10_000, None),
        "jobs_waiting": (50, 3),
        "recovery_executions": (20, None),
        "output_mb_per_job": (200, None),
        "output_mb_per_day": (7, 2),
        "input_mb_per_job": (10_240, None),
        "upload_mb_per_day": (102_400, 6),
        "output_files_mb_per_job": (10_240, None),
        "output_files_mb_per_day": (102_400, 5),
        "output_files_per_job": (10_000, None),
    } == found
    other = summary(status(aws, "client-other", JOBLANE_LIMITS=limits))["limits"]
    counted = {each["limit"]: each["current"] for each in other}
    assert 0 == counted.pop("upload_mb_per_day")
    assert {None} == {*counted.values()}


def test_agents_count_for_who_may_use_one_of_their_queues(aws: Cloud):
    aws.agents.beat(agent("shared"))
    aws.agents.beat(replace(agent("own", "bulk"), running=4))
    aws.agents.beat(replace(agent("broken"), trouble="the disk is full"))
    aws.agents.beat(replace(agent("leaving"), mode="draining"))
    aws.agents.beat(replace(agent("gone"), beat_ms=NOW_MS - 3_600_000))
    for client, alive, running, free in (
        ("client-acme", 4, 7, 3),
        ("client-platform", 4, 7, 3),
        ("client-other", 3, 3, 3),
    ):
        assert {
            "alive": alive,
            "slots": 4 * alive,
            "running": running,
            "free": free,
            "troubled": 1,
            "cordoned": 1,
            "more": False,
            "lacks": {},
        } == summary(status(aws, client))["agents"]


def test_what_no_live_agent_of_a_queue_can_give_is_named(aws: Cloud):
    aws.agents.beat(replace(agent("own", "bulk"), lacks=("egress", "memory_mb")))
    aws.agents.beat(replace(agent("shared"), lacks=("memory_mb", "disk_mb")))
    assert {"bulk": ["egress", "memory_mb"], "default": ["disk_mb", "memory_mb"]} == summary(
        status(aws)
    )["agents"]["lacks"]
    other = summary(status(aws, "client-other"))
    assert {"default": ["disk_mb", "memory_mb"]} == other["agents"]["lacks"]
    aws.agents.beat(replace(agent("second"), lacks=("disk_mb",)))
    aws.agents.beat(replace(agent("leaving"), mode="draining"))
    assert {"default": ["disk_mb"]} == summary(status(aws, "client-other"))["agents"]["lacks"]


def test_links_and_prices_are_those_of_joblane_toml(aws: Cloud):
    prices = '{"usd_per_slot_hour_min": 0.01, "usd_per_slot_hour_max": 0.02}'
    settings = {
        "JOBLANE_LINKS": '[{"name": "logs", "template": "https://logs.test/{job_id}"}]',
        "JOBLANE_PRICES": f'{{"default": {prices}, "bulk": {prices}}}',
    }
    found = summary(status(aws, **settings))
    assert [{"name": "logs", "template": "https://logs.test/{job_id}"}] == found["links"]
    assert {"default", "bulk"} == found["prices"].keys()
    assert {"default"} == summary(status(aws, "client-other", **settings))["prices"].keys()


def test_a_sample_has_the_first_agents_of_each_partition_and_says_if_there_are_more(aws: Cloud):
    for n in range(3 * SHARDS):
        aws.agents.beat(agent(f"agent-{n}"))
    with ThreadPoolExecutor(SHARDS) as pool:
        every, none_more = aws.agents.sample(3 * SHARDS, pool)
        some, more = aws.agents.sample(2, pool)
        largest = max(len(aws.agents._in_shard(shard)) for shard in range(SHARDS))
        exact = aws.agents.sample(largest, pool)
    assert (3 * SHARDS, False) == (len(every), none_more)
    assert more
    assert 2 * SHARDS >= len(some)
    assert {row.name for row in some} < {row.name for row in every}
    assert (every, False) == exact


def test_a_summary_costs_no_more_however_many_agents_there_are(aws: Cloud, meter: Meter):
    for n in range(SHARDS * PER_SHARD * 2):
        aws.agents.beat(agent(f"agent-{n}"))
    built = build(configure(Settings), meter.clients_of(aws), time.time)
    Api(built)("GET", "/v1/summary")
    assert {"dynamodb.Query": SHARDS, "dynamodb.GetItem": 2} == meter.calls


def test_routes_that_change_something_need_a_trail():
    access = configure(Settings).access
    found = RequestJobs(lambda _tenant, _job_id: None, Logger())
    app = Application(access, time.time, found, Logger(), None)
    with pytest.raises(ValueError, match="need an audit trail"):
        app.add(AGENT_ROUTES)
