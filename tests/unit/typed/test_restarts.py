"""Typed jobs that are started again: by the present version of their type, or as they are."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.aws.job.items import is_inline
from joblane.aws.key.keys import KeyStore
from joblane.aws.table import Table, TransactionRefused
from joblane.formats.times import rfc3339
from joblane.job.offers import offers
from joblane.key.segments import KeyName
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, KEYS_TABLE, Cloud, configure
from tests.support.dying import end
from tests.support.requests import Api
from tests.support.types import PARAMS, store_type, type_store
from tests.unit.typed.test_jobs import GOOD, submit

NOW = 1_800_000_000.0
HOUR_LATER_MS = int(NOW + 3600) * 1000
NEEDS_SINCE = {**PARAMS, "required": ["origin", "since"]}


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    moments = count()  # no two requests come in the same millisecond
    settings = configure(submission.Settings)
    return Api(submission.build(settings, aws.clients, lambda: NOW + next(moments) / 1000))


@pytest.fixture(name="operator")
def _operator(aws: Cloud) -> Api:
    moments = count()
    settings = configure(admin.Settings)
    return Api(admin.build(settings, aws.clients, lambda: NOW + next(moments) / 1000))


def key_state(aws: Cloud, name: KeyName) -> tuple[dict[str, int], tuple[str, ...]]:
    """Who has the slots of a key, and who waits for one."""
    state = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE).get("acme", name, 1).state
    return dict(state.active), state.queued


def versions(job: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(step["state"], step["version"]) for step in job["timeline"]]


def restart_failed(operator: Api, body: Any = None) -> tuple[int, Any]:
    """Restart what has failed, then what is dead; returns the answer about the dead ones."""
    path = "/v1/queues/_all/restart-failed"
    _, first = operator("POST", path, body)
    return operator("POST", path, body, query={"next": first["next"]})


# --- the present version


@pytest.mark.parametrize("how", ["retry", "replay", "restart-failed", "selected", "selected dead"])
def test_a_restart_runs_the_present_version(aws: Cloud, api: Api, operator: Api, how: str):
    store_type(aws, bundle_mb=70, defaults={"timeout_s": 60, "env": {"MODE": "a"}})
    first = submit(api, env={"OWN": "1"})
    end(aws, first["id"])
    changed = {"timeout_s": 90, "env": {"MODE": "b"}, "priority": "high"}
    store_type(aws, bundle_mb=90, defaults=changed)
    match how:
        case "retry":
            status, _ = api("POST", f"/v1/jobs/{first['id']}/retry")
        case "replay":
            status, _ = operator("POST", f"/v1/dlq/{first['id']}/replay")
        case "selected":
            status, _ = api("POST", "/v1/jobs/retry", query={"type": "sync-tickets"})
        case "selected dead":
            status, _ = operator("POST", "/v1/dlq/replay", query={"type": "sync-tickets"})
        case _:
            status, _ = restart_failed(operator)
    assert status in {200, 202}
    _, job = api("GET", f"/v1/jobs/{first['id']}")
    assert ("pending", 2, 90, "high", {"MODE": "b", "OWN": "1"}) == (
        job["state"],
        job["type_version"],
        job["timeout_s"],
        job["priority"],
        job["env"],
    )
    assert [("pending", 1), ("active", 1), ("dead", 1), ("pending", 2)] == versions(job)
    assert 90 == aws.job(first["id"]).bundle_mb
    head = end(aws, first["id"], State.COMPLETED)
    assert (State.COMPLETED, 1, ("env.OWN",)) == (head.state, head.edit, head.given)


@pytest.mark.parametrize("how", ["retry", "replay", "restart-failed", "selected", "selected dead"])
def test_same_version_leaves_the_job_as_it_is(aws: Cloud, api: Api, operator: Api, how: str):
    store_type(aws, defaults={"timeout_s": 60})
    first = submit(api)
    end(aws, first["id"])
    store_type(aws, defaults={"timeout_s": 90}, params_schema=NEEDS_SINCE)
    body, query = {"same_version": True}, {"type": "sync-tickets"}
    match how:
        case "retry":
            status, _ = api("POST", f"/v1/jobs/{first['id']}/retry", body)
        case "replay":
            status, _ = operator("POST", f"/v1/dlq/{first['id']}/replay", body)
        case "selected":
            status, _ = api("POST", "/v1/jobs/retry", body, query=query)
        case "selected dead":
            status, _ = operator("POST", "/v1/dlq/replay", body, query=query)
        case _:
            status, _ = restart_failed(operator, body)
    assert status in {200, 202}
    _, job = api("GET", f"/v1/jobs/{first['id']}")
    assert ("pending", 1, 60) == (job["state"], job["type_version"], job["timeout_s"])
    assert 0 == aws.job(first["id"]).edit
    assert {1} == {version for _, version in versions(job)}


def an_hour_later(aws: Cloud) -> tuple[Api, Api]:
    """Both APIs, for users and for operators, when the deadline of a job has passed."""
    moments = count()

    def clock() -> float:
        return (HOUR_LATER_MS + next(moments)) / 1000

    return (
        Api(submission.build(configure(submission.Settings), aws.clients, clock)),
        Api(admin.build(configure(admin.Settings), aws.clients, clock)),
    )


@pytest.mark.parametrize("how", ["retry", "replay", "restart-failed", "resubmit"])
@pytest.mark.parametrize("pushed", [False, True])
def test_a_deadline_of_the_type_counts_from_the_restart(
    aws: Cloud, api: Api, how: str, *, pushed: bool
):
    store_type(aws, defaults={"deadline_s": 60})
    first = submit(api)
    end(aws, first["id"])
    later, operator = an_hour_later(aws)
    if pushed:
        store_type(aws, defaults={"deadline_s": 90})
    assert {"retry", "replay", "resubmit"} <= offers(aws.job(first["id"]), HOUR_LATER_MS)
    match how:
        case "restart-failed":
            status, job = restart_failed(operator)
            assert 1 == job["restarted"]
            job = later("GET", f"/v1/jobs/{first['id']}")[1]
        case "replay":
            status, job = operator("POST", f"/v1/dlq/{first['id']}/replay")
        case _:
            status, job = later("POST", f"/v1/jobs/{first['id']}/{how}")
    assert status in {200, 202}, job
    seconds = 90 if pushed else 60
    assert rfc3339(HOUR_LATER_MS + seconds * 1000)[:19] == job["deadline"][:19]


def test_a_deadline_stays_that_was_given_or_with_the_same_version(aws: Cloud, api: Api):
    store_type(aws, defaults={"deadline_s": 60})
    of_type, given = submit(api), submit(api, deadline=rfc3339(int(NOW * 1000) + 60_000))
    for job in (of_type, given):
        end(aws, job["id"])
    later, _ = an_hour_later(aws)
    assert {"retry", "resubmit"}.isdisjoint(offers(aws.job(given["id"]), HOUR_LATER_MS))
    for job, body in ((of_type, {"same_version": True}), (given, None)):
        status, problem = later("POST", f"/v1/jobs/{job['id']}/retry", body)
        assert (409, True) == (status, "has passed" in problem["detail"])
    status, problem = later("POST", f"/v1/jobs/{given['id']}/resubmit")
    assert (409, True) == (status, "deadline has passed" in problem["detail"])


def test_what_does_not_fit_is_listed_and_left(aws: Cloud, api: Api, operator: Api):
    store_type(aws)
    fits, misses = submit(api, params={**GOOD, "since": 5}), submit(api)
    for job in (fits, misses):
        end(aws, job["id"])
    store_type(aws, params_schema=NEEDS_SINCE)
    _, answer = restart_failed(operator)
    (refused,) = answer["refused"]
    assert (1, misses["id"]) == (answer["restarted"], refused["id"])
    assert refused["detail"] == (
        "the present version of type sync-tickets does not take the job: params.since required; "
        "restart it with --same-version (same_version=true), which runs version 1 again, or "
        "resubmit it with a change"
    )
    assert (State.PENDING, State.DEAD) == (aws.job(fits["id"]).state, aws.job(misses["id"]).state)
    status, problem = operator("POST", f"/v1/dlq/{misses['id']}/replay")
    assert (409, [{"field": "params.since", "problem": "required"}]) == (status, problem["errors"])
    assert problem["detail"] == refused["detail"]
    assert aws.job(misses["id"]).timeline == end_of(aws, misses["id"])


def end_of(aws: Cloud, job_id: str) -> tuple[object, ...]:
    head = aws.job(job_id)
    assert head.state is State.DEAD
    return head.timeline


@pytest.mark.parametrize(
    ("defaults", "field"),
    [
        ({"queue": "nowhere"}, "queue"),
        ({"resources": {"memory_mb": 900_000}}, "resources.memory_mb"),
        ({"env": {f"D{n}": "" for n in range(501)}}, None),
    ],
)
def test_admission_decides_again(aws: Cloud, api: Api, defaults: dict[str, Any], field: str | None):
    if field is None:
        defaults = {"env": {f"D{n}": "" for n in range(300)}}
    store_type(aws, defaults={"queue": "default"})
    first = submit(api, env={f"S{n}": "" for n in range(300)})
    end(aws, first["id"])
    store_type(aws, defaults=defaults)
    status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (409, field or "env") == (status, problem["errors"][0]["field"])
    assert State.DEAD is aws.job(first["id"]).state


def test_a_type_that_was_removed_runs_again_as_it_is(aws: Cloud, api: Api):
    store_type(aws)
    first = submit(api)
    end(aws, first["id"])
    type_store(aws).remove("acme", "sync-tickets", 1)
    status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (409, "type") == (status, problem["errors"][0]["field"])
    status, job = api("POST", f"/v1/jobs/{first['id']}/retry", {"same_version": True})
    assert (202, 1) == (status, job["type_version"])


def test_a_job_that_may_not_run_twice_is_not_made_to_by_another_version(aws: Cloud, api: Api):
    for before, after in ((True, False), (False, True)):
        number = store_type(aws, defaults={"restartable": before}).version
        first = submit(api)
        end(aws, first["id"])
        store_type(aws, defaults={"restartable": after})
        status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
        assert (409, number) == (status, aws.job(first["id"]).type_version)
        assert "is not restartable and has been started" in problem["detail"]


@pytest.mark.parametrize("size", [10, 10_000, 300_000])
def test_a_submission_that_changes_is_written_with_the_move(aws: Cloud, api: Api, size: int):
    """Inline, in its DATA item, or in S3: whole, and each edit in a place of its own."""
    loose = {"type": "object"}
    store_type(aws, params_schema=loose, items=None, defaults={"timeout_s": 60})
    params, env = {"a": "x" * min(size, 200_000)}, {"B": "y" * min(size, 100_000)}
    first = submit(api, params=params, env=env)
    for version, timeout_s in ((2, 70), (3, 80), (4, 80)):
        end(aws, first["id"])
        defaults = {"timeout_s": timeout_s, "env": {"C": str(timeout_s)}}
        store_type(
            aws, params_schema=loose, defaults=defaults, description=str(version), items=None
        )
        assert 202 == api("POST", f"/v1/jobs/{first['id']}/retry")[0]
        _, job = api("GET", f"/v1/jobs/{first['id']}")
        assert (version, timeout_s, params) == (
            job["type_version"],
            job["timeout_s"],
            job["params"],
        )
        assert {**env, "C": str(timeout_s)} == job["env"]
    assert (2, ("env.B",)) == (aws.job(first["id"]).edit, aws.job(first["id"]).given)
    end(aws, first["id"])
    assert 204 == api.raw("DELETE", f"/v1/jobs/{first['id']}")["statusCode"]
    rows = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)["Items"]
    assert [] == [row for row in rows if row["job_id"]["S"] == first["id"]]


# --- keys


OLD, NEW = (KeyName.of("sync-tickets", (word, "acme")) for word in ("old", "new"))


def keyed(word: str, **limits: object) -> dict[str, object]:
    return {"segments": [word, "/origin"], **limits}


def test_a_job_whose_key_differs_leaves_one_and_gets_the_other(aws: Cloud, api: Api):
    """Its end under the old key is lost: its slot goes to who waits for it."""
    store_type(aws, key=keyed("old", max_queued=2))
    first, waits = submit(api), submit(api)
    end(aws, first["id"])
    store_type(aws, key=keyed("new"))
    status, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (202, "pending", NEW.hash) == (status, job["state"], job["key"]["id"])
    assert ({first["id"]: job["slot"]}, ()) == key_state(aws, NEW)
    active, queued = key_state(aws, OLD)
    assert ([waits["id"]], ()) == ([*active], queued)
    let_go = aws.job(waits["id"])
    assert (State.PENDING, active[waits["id"]]) == (let_go.state, let_go.slot)


def test_a_job_whose_new_key_is_full_stays_with_the_old_one(aws: Cloud, api: Api):
    store_type(aws, key=keyed("old"))
    first = submit(api)
    end(aws, first["id"])
    store_type(aws, key=keyed("new"))
    holder = submit(api)
    before = key_state(aws, OLD), key_state(aws, NEW)
    status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert 409 == status
    assert 'key ["new", "acme"] is full: 1 of 1 jobs active' in problem["detail"]
    assert before == (key_state(aws, OLD), key_state(aws, NEW))
    assert [holder["id"]] == [*before[1][0]]
    assert (State.DEAD, 1) == (aws.job(first["id"]).state, aws.job(first["id"]).type_version)


def test_a_job_waits_for_its_new_key(aws: Cloud, api: Api):
    store_type(aws, key=keyed("old"))
    first = submit(api)
    end(aws, first["id"])
    store_type(aws, key=keyed("new", max_queued=1))
    holder = submit(api)
    _, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert ("waiting", None) == (job["state"], job["slot"])
    assert (({}, ()), (first["id"],)) == (key_state(aws, OLD), key_state(aws, NEW)[1])
    assert [holder["id"]] == [*key_state(aws, NEW)[0]]


def test_a_job_may_lose_its_key_and_get_its_first_one(aws: Cloud, api: Api):
    store_type(aws, key=keyed("old"))
    first = submit(api)
    end(aws, first["id"])
    store_type(aws)
    _, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert ("pending", None, None) == (job["state"], job["key"], job["slot"])
    assert ({}, ()) == key_state(aws, OLD)
    end(aws, first["id"])
    store_type(aws, key=keyed("new"))
    _, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (NEW.hash, {first["id"]: job["slot"]}) == (job["key"]["id"], key_state(aws, NEW)[0])
    assert [1, 1, 1, 2, 2, 2, 3] == [version for _, version in versions(job)]


def test_a_restart_has_the_limits_of_the_present_version(aws: Cloud, api: Api):
    store_type(aws, key=keyed("old"))
    first = submit(api)
    end(aws, first["id"])
    store_type(aws, key=keyed("old", max_active=3))
    assert 202 == api("POST", f"/v1/jobs/{first['id']}/retry")[0]
    state = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE).get("acme", OLD, 1).state
    assert 3 == state.limits.max_active


def test_a_pointer_that_leads_nowhere_in_the_present_version_is_named(aws: Cloud, api: Api):
    store_type(aws, key=keyed("old"))
    first = submit(api)
    end(aws, first["id"])
    store_type(aws, key={"segments": ["/since"]})
    status, problem = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (409, "params.since") == (status, problem["errors"][0]["field"])


def test_a_holder_whose_row_names_another_key_is_no_holder(aws: Cloud, api: Api):
    """However it came to be listed: admission takes it out, and clearing leaves it alone."""
    store_type(aws, key=keyed("old", max_queued=1))
    first = submit(api)
    store_type(aws, key=keyed("new"))
    there = submit(api)
    keys = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE)
    seen = keys.get("acme", OLD, 1)
    keys.write(seen, replace(seen.state, active={there["id"]: 999}), 1)
    end(aws, first["id"])
    store_type(aws, key=keyed("old", max_active=1))
    _, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert ("pending", {first["id"]: job["slot"]}) == (job["state"], key_state(aws, OLD)[0])
    assert [there["id"]] == [*key_state(aws, NEW)[0]]


def test_what_an_edit_has_changed_stays(aws: Cloud, api: Api):
    """A person has given it; what the edit takes away is left to the type again."""
    store_type(aws, defaults={"timeout_s": 60, "queue": "default"})
    first = submit(api, resources={"cpus": 1})
    patch = {"timeout_s": 77, "queue": "bulk", "resources": {"cpus": None, "memory_mb": 99}}
    status, answer = api("PATCH", f"/v1/jobs/{first['id']}", patch)
    assert 200 == status, answer
    assert ("queue", "resources.memory_mb", "timeout_s") == aws.job(first["id"]).given
    end(aws, first["id"])
    store_type(aws, defaults={"timeout_s": 90, "resources": {"cpus": 2, "memory_mb": 64}})
    _, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    assert (77, "bulk") == (job["timeout_s"], job["queue"])
    assert (2, 99) == (job["resources"]["cpus"], job["resources"]["memory_mb"])


@pytest.mark.parametrize("taken", [{"memory_mb": None, "cpus": None}, None])
def test_what_an_edit_takes_away_is_the_default_of_its_version(
    aws: Cloud, api: Api, taken: dict[str, None] | None
):
    store_type(aws, defaults={"resources": {"cpus": 2, "memory_mb": 700, "pids": 50}})
    first = submit(api, resources={"memory_mb": 64})
    store_type(aws, defaults={"resources": {"memory_mb": 800}})
    for edit in (1, 1):  # and when it is sent again
        status, job = api("PATCH", f"/v1/jobs/{first['id']}", {"resources": taken})
        assert (200, edit) == (status, job["edit"])
        found = tuple(job["resources"][name] for name in ("cpus", "memory_mb", "pids"))
        assert (2, 700, 50) == found
    assert () == aws.job(first["id"]).given


def test_a_restart_in_a_queue_of_a_longer_name_leaves_the_submission_to_edits(aws: Cloud, api: Api):
    """What is stored beside a submission decides whether that is in the row: also its lane."""
    store_type(aws, defaults={"queue": "bulk"})
    origin = "x"
    while is_inline(aws.job((first := submit(api, params={"origin": origin}))["id"])):
        origin, longest = origin + "x", first["id"]
    end(aws, longest)
    store_type(aws, defaults={"queue": "default"})
    status, job = api("POST", f"/v1/jobs/{longest}/retry")
    assert (202, "default") == (status, job["queue"])
    status, job = api("PATCH", f"/v1/jobs/{longest}", {"timeout_s": 77})
    assert 200 == status, job
    assert 77 == aws.job(longest).spec.timeout_s


@pytest.mark.parametrize("how", ["one", "as it was read", "selected"])
def test_a_restart_whose_item_is_busy_is_made_again(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch, how: str
):
    """DynamoDB refuses a transaction while another one has the item: the job is not gone."""
    long = {"LONG": "x" * 2000}
    store_type(aws, defaults={"timeout_s": 60})
    first = submit(api, env=long)
    end(aws, first["id"])
    store_type(aws, defaults={"timeout_s": 70})
    transact, met = Table.transact, list[int]()

    def busy(table: Table, writes: Any) -> None:
        met.append(len(writes))
        if len(met) == 1:
            raise TransactionRefused([{"Code": "TransactionConflict"}, *[{}] * (len(writes) - 1)])
        transact(table, writes)

    path = f"/v1/jobs/{first['id']}"
    tag = api.raw("GET", path)["headers"]["ETag"]
    monkeypatch.setattr(Table, "transact", busy)
    match how:
        case "one":
            status, _ = api("POST", f"{path}/retry")
        case "selected":
            status, answer = api("POST", "/v1/jobs/retry", query={"type": "sync-tickets"})
            assert 1 == answer["retried"], answer
        case _:
            status = api.raw("POST", f"{path}/retry", headers={"if-match": tag})["statusCode"]
    assert status in {200, 202}
    assert 2 == len(met)
    assert (State.PENDING, 70) == (aws.job(first["id"]).state, aws.job(first["id"]).spec.timeout_s)


def test_a_push_during_a_restart_comes_before_or_after_it(aws: Cloud, api: Api):
    """The version is read once for a request, and the row names the one that was applied."""
    store_type(aws, defaults={"timeout_s": 60})
    first = submit(api)
    end(aws, first["id"])
    reads = 0

    def push(**_: object) -> None:
        nonlocal reads
        reads += 1
        if reads == 2:  # the job has been read, and the number of the version
            store_type(aws, defaults={"timeout_s": 70})

    dynamodb = aws.clients.make("dynamodb")
    dynamodb.meta.events.register("after-call.dynamodb.GetItem", push)
    status, job = api("POST", f"/v1/jobs/{first['id']}/retry")
    dynamodb.meta.events.unregister("after-call.dynamodb.GetItem", push)
    assert 202 == status
    assert job["timeout_s"] == {1: 60, 2: 70}[job["type_version"]]


# --- types that a bulk names


@pytest.mark.parametrize("verb", ["restart-failed", "requeue"])
@pytest.mark.parametrize("queue", ["_all", "default"])
def test_a_bulk_names_a_type_that_there_is(aws: Cloud, operator: Api, verb: str, queue: str):
    """Or nothing would be found, as if all was well."""
    store_type(aws)
    path = f"/v1/queues/{queue}/{verb}"
    code, answer = operator("POST", path, query={"type": "typo"})
    assert (404, "there is no such type typo; GET /v1/types lists them") == (code, answer["detail"])
    for known in ("sync-tickets", "sleep"):
        assert 200 == operator("POST", path, query={"type": known})[0]


def test_a_bulk_names_a_type_that_was_removed(aws: Cloud, operator: Api):
    store_type(aws)
    assert 204 == operator.raw("DELETE", "/v1/types/sync-tickets")["statusCode"]
    path = "/v1/queues/_all/restart-failed"
    assert 200 == operator("POST", path, query={"type": "sync-tickets"})[0]
