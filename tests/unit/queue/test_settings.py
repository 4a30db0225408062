"""Settings of queues: operators do not overwrite each other, and every agent sees them."""

import asyncio
import json
import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.lanes.queue_limits import QueueLimits
from ec2_agent.logging.standard import JsonLines
from functions.admin.handler import Settings, build
from functions.requeue.handler import Settings as RequeueSettings
from functions.requeue.handler import build as build_requeue
from functions.submission.handler import Settings as SubmissionSettings
from functions.submission.handler import build as build_submission
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.errors import Changed
from joblane.queue.access import may_change, owner
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.shares import SETTLE_S, share_out
from joblane.state.lease import LEASE_S
from tests.support.agents import settings as agent_settings
from tests.support.aws import NAME, Cloud, configure
from tests.support.fleet import beat_ago
from tests.support.jobs import named
from tests.support.meter import Meter
from tests.support.requests import Api

TABLE = table_name(NAME, "settings")
PATH = "/v1/queues/default/settings"
OFF = {"run_jobs": False, "threads": None, "cluster_threads": None}


@pytest.fixture(name="store")
def _store(aws: Cloud) -> SettingsStore:
    return SettingsStore(aws.clients.make("dynamodb"), TABLE)


def api_of(aws: Cloud, client_id: str = "client-platform") -> Api:
    return Api(build(configure(Settings), aws.clients, time.time), client_id)


def put(api: Api, body: object, etag: str | None, path: str = PATH) -> tuple[int, Any]:
    headers = {} if etag is None else {"If-Match": etag}
    answer = api.raw("PUT", path, body, headers=headers)
    return answer["statusCode"], json.loads(answer["body"])


def test_a_queue_that_nobody_has_set_says_what_the_file_says(aws: Cloud):
    answer = api_of(aws).raw("GET", PATH)
    assert '"0"' == answer["headers"]["ETag"]
    assert {
        "run_jobs": True,
        "threads": None,
        "threads_declared": 8,
        "cluster_threads": None,
        "version": 0,
        "changed_at": None,
        "changed_by": None,
        "may_change": True,
    } == json.loads(answer["body"])


def test_settings_are_kept_with_who_and_when(aws: Cloud):
    api = api_of(aws)
    status, first = put(api, {**OFF, "threads": 3}, '"0"')
    assert (200, 1, "machine ops (platform)") == (status, first["version"], first["changed_by"])
    answer = api.raw("GET", PATH)
    assert first == json.loads(answer["body"])
    assert '"1"' == answer["headers"]["ETag"]


def test_an_operator_who_has_not_seen_the_last_change_is_refused(aws: Cloud):
    api = api_of(aws)
    assert 200 == put(api, OFF, '"0"')[0]
    for stale in ('"0"', '"2"'):
        status, problem = put(api, {**OFF, "run_jobs": True}, stale)
        assert 412 == status
        assert "have changed since you read them" in problem["detail"]
    assert not api("GET", PATH)[1]["run_jobs"]
    assert (200, 2) == (put(api, OFF, '"1"')[0], api("GET", PATH)[1]["version"])
    assert (200, 3) == (put(api, OFF, "*")[0], api("GET", PATH)[1]["version"])


@pytest.mark.parametrize(
    ("etag", "status"), [(None, 428), ("3", 400), ('W/"3"', 400), ('"x"', 400), ("", 400)]
)
def test_who_does_not_say_what_he_has_seen_is_told_to(aws: Cloud, etag: str | None, status: int):
    answer, problem = put(api_of(aws), OFF, etag)
    assert status == answer
    assert "If-Match" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"run_jobs": True}, "threads"),
        ({**OFF, "threads": -1}, "threads"),
        ({**OFF, "threads": 1001}, "threads"),
        ({**OFF, "threads": "4"}, "threads"),
        ({**OFF, "cluster_threads": 1.5}, "cluster_threads"),
        ({**OFF, "run_jobs": 1}, "run_jobs"),
        ({**OFF, "paused": True}, "paused"),
        ([], "body"),
        ("{", "body"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_changes(aws: Cloud, body: object, field: str):
    api = api_of(aws)
    status, problem = put(api, body, '"0"')
    assert 400 == status
    assert field in [error["field"] for error in problem["errors"]]
    assert 0 == api("GET", PATH)[1]["version"]


@pytest.mark.parametrize("client", ["client-acme", "client-other"])
def test_an_operator_of_a_tenant_cannot_pause_a_queue_that_tenants_share(aws: Cloud, client: str):
    for etag in ('"0"', "*", None):
        status, problem = put(api_of(aws, client), OFF, etag)
        assert 403 == status
        assert "this needs the role platform" in problem["detail"]
    assert 0 == api_of(aws)("GET", PATH)[1]["version"]
    assert not api_of(aws, client)("GET", PATH)[1]["may_change"]


def test_an_operator_changes_a_queue_that_is_the_tenants_alone(aws: Cloud):
    acme, path = api_of(aws, "client-acme"), "/v1/queues/bulk/settings"
    assert 200 == put(acme, OFF, '"0"', path)[0]
    assert 200 == put(api_of(aws), OFF, '"1"', path)[0]
    # Who changed it is no secret from those whose queue it is.
    assert "machine ops (platform)" == acme("GET", path)[1]["changed_by"]
    assert acme("GET", path)[1]["may_change"]


@pytest.mark.parametrize(
    ("named", "may"),
    [
        ([], ["platform"]),
        (["acme"], ["acme", "platform"]),
        (["acme", "other"], ["platform"]),
        (["other"], ["platform"]),
    ],
)
def test_a_queue_is_a_tenants_own_if_the_file_names_it_alone(named: list[str], may: list[str]):
    assert may == [who for who in ("acme", "platform") if may_change(named, who)]


@pytest.mark.parametrize(
    ("queues", "tenant"),
    [
        ([["acme"]], "acme"),
        ([["acme"], ["acme", "acme"]], "acme"),
        ([["acme"], []], None),  # the second is open to all
        ([["acme"], ["other"]], None),
        ([["acme", "other"]], None),
        ([[]], None),
    ],
)
def test_queues_have_an_owner_if_they_name_one_tenant_alone(
    queues: list[list[str]], tenant: str | None
) -> None:
    assert tenant == owner(queues)


def test_another_tenants_queue_is_no_queue_and_its_operators_have_no_names(aws: Cloud):
    other = api_of(aws, "client-other")
    assert 404 == put(other, OFF, '"0"', "/v1/queues/bulk/settings")[0]
    assert 404 == other("GET", "/v1/queues/bulk/settings")[0]
    assert 404 == other("GET", "/v1/queues/none/settings")[0]
    by_acme = QueueSettings(version=1, changed_ms=5, changed_by="ada", tenant="acme")
    SettingsStore(aws.clients.make("dynamodb"), TABLE).put("default", by_acme, over=0)
    seen = other("GET", PATH)[1]
    assert (1, None) == (seen["version"], seen["changed_by"])


def test_a_second_try_after_a_lost_answer_is_the_first_one(store: SettingsStore):
    mine = QueueSettings(version=1, changed_ms=5, changed_by="a", tenant="acme")
    store.put("default", mine, over=0)
    store.put("default", mine, over=0)
    with pytest.raises(Changed):
        store.put("default", replace(mine, changed_by="b"), over=0)
    assert mine == store.get("default")


def test_a_limit_of_the_cluster_is_shared_out_at_once(aws: Cloud, store: SettingsStore):
    for name in ("a", "b", "c"):
        beat_ago(aws, name)
    beat_ago(aws, "dead", age_s=LEASE_S + 1)
    beat_ago(aws, "new", since_s=SETTLE_S - 5)
    put(api_of(aws), {"run_jobs": True, "threads": None, "cluster_threads": 7}, '"0"')
    settings = store.get("default")
    since_ms = int((time.time() - 3600) * 1000)
    assert [3, 2, 2] == sorted((settings.cap(8, n, since_ms) for n in "abc"), reverse=True)
    assert 0 == settings.cap(8, "new", int(time.time() * 1000))


def test_requeue_shares_out_anew_only_where_agents_have_come_or_gone(
    aws: Cloud, store: SettingsStore
):
    meter = Meter()
    wanted = configure(RequeueSettings)

    def run() -> tuple[int, int]:
        before = meter.calls.copy()
        done = build_requeue(wanted, meter.clients_of(aws), time.time).run(lambda: 60.0)
        return done["Shared"], (meter.calls - before)["dynamodb.UpdateItem"]

    beat_ago(aws, "a")
    assert (1, 3) == run()  # limits of tenants, what agents can give, and when passes began
    assert (0, 0) == run()  # no queue has a limit
    put(api_of(aws), {"run_jobs": True, "threads": None, "cluster_threads": 6}, '"0"')
    assert (0, 0) == run()
    beat_ago(aws, "b")
    assert (2, 2) == run()  # and those of tenants
    assert (0, 0) == run()
    settings = store.get("default")
    assert (1, 3) == (settings.version, settings.cap(8, "a", 0))
    aws.agents.delete("a")
    assert (2, 2) == run()
    assert 6 == store.get("default").cap(8, "b", 0)


def test_shares_of_an_older_limit_are_not_stored(store: SettingsStore):
    store.put("default", QueueSettings(cluster_threads=4, version=1), over=0)
    store.put("default", QueueSettings(cluster_threads=9, version=2), over=1)
    with pytest.raises(Changed):
        store.put_shares("default", share_out("default", 4, [], 0), 1)


def test_an_agent_sees_a_change_and_tells_those_who_wait(
    store: SettingsStore, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)

    async def watch() -> list[int]:
        changed = asyncio.Event()
        limits = QueueLimits(agent_settings(), store, changed.set, read_every_s=0.001)
        await limits.begin()
        seen = [limits.of("default")]
        keeping = asyncio.create_task(limits.keep())
        for version, settings in enumerate(
            (QueueSettings(threads=2), QueueSettings(run_jobs=False), QueueSettings())
        ):
            store.put("default", replace(settings, version=version + 1), over=version)
            await changed.wait()
            changed.clear()
            seen.append(limits.of("default"))
        keeping.cancel()
        return seen

    assert [8, 2, 0, 8] == asyncio.run(watch())
    ours = [record for record in caplog.records if record.name == "joblane"]
    told = [json.loads(JsonLines().format(record)) for record in ours]
    assert [("queue_limit_changed", "default", n) for n in (1, 2, 3)] == [
        (line["event"], line["queue"], line["version"]) for line in told
    ]
    assert [2, 0, 8] == [line["threads"] for line in told]


def test_reading_all_queues_is_one_request(aws: Cloud, meter: Meter):
    store = SettingsStore(meter.clients_of(aws).make("dynamodb"), TABLE)
    assert dict.fromkeys(("default", "bulk"), UNSET) == store.get_all(["default", "bulk"])
    assert {"dynamodb.BatchGetItem": 1} == meter.calls


def test_a_job_that_waits_in_a_paused_queue_says_so(aws: Cloud, store: SettingsStore):
    jobs = Api(build_submission(configure(SubmissionSettings), aws.clients, time.time))
    job_id = jobs("POST", "/v1/jobs", {"command": ["true"]})[1]["id"]
    assert "for an agent" in jobs("GET", f"/v1/jobs/{job_id}")[1]["reason"]
    paused = QueueSettings(run_jobs=False, version=1, changed_ms=1_800_000_000_000)
    store.put("default", paused, over=0)
    reason = "queue default is paused since 2027-01-15T08:00:00.000Z and starts no jobs until"
    assert reason in jobs("GET", f"/v1/jobs/{job_id}")[1]["reason"]
    assert reason in jobs("GET", "/v1/jobs")[1]["entries"][0]["reason"]
    store.put("default", QueueSettings(version=2), over=1)
    assert "for an agent" in jobs("GET", f"/v1/jobs/{job_id}")[1]["reason"]


def test_a_job_that_does_not_wait_costs_no_read_of_settings(aws: Cloud, meter: Meter):
    jobs = Api(build_submission(configure(SubmissionSettings), meter.clients_of(aws), time.time))
    job_id = jobs("POST", "/v1/jobs", {"command": ["true"]})[1]["id"]
    aws.jobs.claim(named(job_id), "agent-1", int(time.time() * 1000))
    meter.reset()
    jobs("GET", f"/v1/jobs/{job_id}")
    assert "dynamodb.BatchGetItem" not in meter.calls
