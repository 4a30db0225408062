"""Job types in the API: pushed, classified, listed and removed; and uploads of their bundles."""

import base64
import hashlib
import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from functions.admin.handler import Settings, build
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.aws.key.keys import KeyStore
from joblane.aws.typed.types import TypeStore
from joblane.contract.types import MAX_DEFINITION_BYTES
from joblane.deployment.names import bundle_key
from joblane.errors import Changed
from joblane.key.state import KeyState
from joblane.service.decide_again import TRIES
from joblane.service.queue.count import Counting
from joblane.service.typed.types import MAX_TYPES
from joblane.state.lifecycle import State
from joblane.typed.changes import changes, names_other_keys
from joblane.typed.definition import MAX_BUNDLE_BYTES, TypeVersion
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, KEYS_TABLE, Cloud, configure
from tests.support.job_stream import Stream
from tests.support.requests import Api
from tests.support.type_pushes import (
    DIGEST,
    KEY,
    ZIP,
    body,
    hold_a_key,
    push,
    push_refused,
    put_bundle,
)
from tests.support.types import PARAMS, WHO, definition, described, store_type, type_store


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    put_bundle(aws)
    return Api(build(configure(Settings), aws.clients, time.time))


def named(pushed: Any) -> list[tuple[str, str]]:
    return [(change["field"], change["kind"]) for change in pushed["changes"]]


# --- push


def test_a_pushed_type_is_shown_and_listed(api: Api):
    pushed = push(api, key=KEY, defaults={"queue": "bulk"}, description="Copy tickets")
    assert {"type": "sync-tickets", "version": 1, "change": "created", "changes": []} == pushed
    status, shown = api("GET", "/v1/types/sync-tickets")
    assert (200, 1, "Copy tickets", PARAMS, None, {"arm64": DIGEST}, "bulk") == (
        status,
        shown["version"],
        shown["description"],
        shown["params_schema"],
        shown["result_schema"],
        shown["bundles"],
        shown["defaults"]["queue"],
    )
    assert (["zendesk", "/origin"], 1, "ci") == (
        shown["key"]["segments"],
        shown["key"]["max_active"],
        shown["pushed_by"]["name"],
    )
    _, page = api("GET", "/v1/types")
    assert ["sleep", "sync-tickets"] == [entry["type"] for entry in page["entries"]]
    fields = {name: value for name, value in shown.items() if not name.endswith("_schema")}
    assert page["entries"][1] == {**fields, "jobs": None}
    assert page["commands"] is None
    assert (["arm64", "x86_64"], 2, None) == (page["architectures"], page["limit"], page["next"])


def test_the_built_in_type_is_shown_without_a_version(api: Api):
    status, shown = api("GET", "/v1/types/sleep")
    assert (200, None, None, "/items", "integer") == (
        status,
        shown["version"],
        shown["entry"],
        shown["items"],
        shown["params_schema"]["properties"]["ms"]["type"],
    )


def test_the_same_definition_writes_nothing(aws: Cloud, api: Api):
    push(api)
    before = type_store(aws).version("acme", "sync-tickets", 1)
    again = push(api, reason="once more")
    assert ("unchanged", 1, []) == (again["change"], again["version"], again["changes"])
    assert before == type_store(aws).version("acme", "sync-tickets", 1)
    assert None is type_store(aws).version("acme", "sync-tickets", 2)


def test_an_update_says_what_has_changed(aws: Cloud, api: Api):
    push(api, key=KEY, defaults={"queue": "bulk"})
    other = put_bundle(aws, b"PK another")
    status, updated = api(
        "PUT",
        "/v1/types/sync-tickets",
        described(
            key={**KEY, "max_queued": 5},
            defaults={"queue": "default", "timeout_s": 60},
            bundles={"arm64": DIGEST, "x86_64": other},
            items=None,
        ),
    )
    assert (200, "updated", 2) == (status, updated["change"], updated["version"])
    assert named(updated) == [
        ("defaults.queue", "update"),
        ("defaults.timeout_s", "narrows"),
        ("items", "update"),
        ("key.max_queued", "update"),
        ("bundles", "update"),
    ]
    assert "timeout_s from 600 to 60" in [change["why"] for change in updated["changes"]]


def test_a_check_answers_as_a_push_and_writes_nothing(aws: Cloud, api: Api):
    push(api, key=KEY)
    elsewhere = body(key={"segments": ["a"]}, bundles={"arm64": "0" * 64})  # is not uploaded
    query = {"check": "true"}
    status, answer = api("PUT", "/v1/types/sync-tickets", elsewhere, query=query)
    assert (200, "updated", 2) == (status, answer["change"], answer["version"])
    assert [("key.segments", "needs-empty-key"), ("bundles", "update")] == named(answer)
    hold_a_key(aws)
    assert 409 == api("PUT", "/v1/types/sync-tickets", elsewhere, query=query)[0]
    assert 400 == api("PUT", "/v1/types/sleep", body(), query=query)[0]
    assert 1 == type_store(aws).latest("acme", "sync-tickets").version


def test_a_type_of_another_tenant_is_not_there(aws: Cloud, api: Api):
    push(api)
    other = Api(build(configure(Settings), aws.clients, time.time), "client-other")
    assert 404 == other("GET", "/v1/types/sync-tickets")[0]
    assert ["sleep"] == [entry["type"] for entry in other("GET", "/v1/types")[1]["entries"]]
    status, problem = other("PUT", "/v1/types/sync-tickets", body())
    assert (400, "bundles.arm64") == (status, problem["errors"][0]["field"])  # its own bundles


@pytest.mark.parametrize(
    ("members", "field", "said"),
    [
        ({"entry": "nothing"}, "entry", "pattern"),
        ({"colour": "blue"}, "colour", "unknown field"),
        ({"params_schema": {"type": "object", "properties": 5}}, "params_schema", "properties"),
        (
            {"params_schema": {"type": "object", "properties": {"a": {"pattern": "("}}}},
            "params_schema",
            "properties.a.pattern",
        ),
        ({"result_schema": {"type": "text"}}, "result_schema", "type"),
        ({"result_schema": {"$ref": "https://x.example"}}, "result_schema", "itself"),
        ({"defaults": {"queue": "nowhere"}}, "defaults.queue", "may use default, bulk"),
        ({"defaults": {"type": "sleep"}}, "defaults.type", "unknown field"),
        ({"bundles": {"arm64": "1" * 64}}, "bundles.arm64", f"no bundle {'1' * 64}"),
        ({"bundles": {}}, "bundles", "at least 1"),
        ({"key": {"segments": ["/a~2"]}}, "key.segments.0", "JSON Pointer"),
        ({"items": "tickets"}, "items", "JSON Pointer"),
    ],
)
def test_a_wrong_definition_is_refused_by_field(
    aws: Cloud, api: Api, members: dict[str, Any], field: str, said: str
):
    found = push_refused(api, **members)
    assert any(each.startswith(field) for each in found), found
    assert said in "; ".join(found.values())
    assert {} == type_store(aws).names("acme")


def test_a_bundle_is_asked_for_by_its_architecture(aws: Cloud, api: Api):
    digest = put_bundle(aws, b"PK other")
    assert {"bundles.x86_64"} == push_refused(
        api, bundles={"arm64": digest, "x86_64": "2" * 64}
    ).keys()


def test_a_bundle_with_another_content_counts_as_absent(aws: Cloud, api: Api):
    """Nobody can upload it by a signed request; whoever has the bucket may still replace it."""
    key = bundle_key("acme", "3" * 64)
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket, Key=key, Body=b"other", ChecksumAlgorithm="SHA256"
    )
    assert {"bundles.arm64"} == push_refused(api, bundles={"arm64": "3" * 64}).keys()


@pytest.mark.parametrize("name", ["sleep", "Sync", "command", "a" * 64, "a.b"])
def test_a_name_that_nobody_may_push_or_remove(api: Api, name: str):
    assert {"type"} == push_refused(api, name).keys()
    assert 400 == api("DELETE", f"/v1/types/{name}")[0]


def test_a_definition_may_be_long_but_not_longer(api: Api):
    schema = {**PARAMS, "description": "x" * 60_000}
    push(api, params_schema=schema, result_schema={"description": "y" * 60_000})
    status, _ = api("PUT", "/v1/types/a", {**body(), "colour": "z" * MAX_DEFINITION_BYTES})
    assert 413 == status


def test_a_tenant_has_a_bounded_number_of_types(api: Api, monkeypatch: pytest.MonkeyPatch):
    push(api)
    names = {f"t{n}": 1 for n in range(MAX_TYPES)}
    monkeypatch.setattr(TypeStore, "names", lambda _self, _tenant: names)
    status, problem = api("PUT", "/v1/types/one-more", body())
    assert (409, True) == (status, str(MAX_TYPES) in problem["detail"])
    assert "updated" == push(api, items=None)["change"]


# --- classification


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("other", [{"segments": ["zendesk"]}, None])
def test_another_key_needs_that_none_is_in_use_or_migrate(
    aws: Cloud, api: Api, *, queued: bool, other: object
):
    push(api, key=KEY)
    hold_a_key(aws, queued=queued)
    status, problem = api("PUT", "/v1/types/sync-tickets", body(key=other))
    assert 409 == status
    assert "--migrate" in problem["detail"]
    assert 1 == type_store(aws).latest("acme", "sync-tickets").version
    status, answer = api(
        "PUT", "/v1/types/sync-tickets", body(key=other), query={"migrate": "true"}
    )
    assert (200, "migrated", 2) == (status, answer["change"], answer["version"])


def test_another_key_is_an_update_once_the_keys_are_idle(aws: Cloud, api: Api):
    push(api, key=KEY)
    keys = KeyStore(aws.clients.make("dynamodb"), KEYS_TABLE)
    name = hold_a_key(aws)
    keys.write(keys.get("acme", name, 1), KeyState(grants=1), 1)  # its row stays for a day
    pushed = push(api, key={"segments": ["zendesk"]})
    assert "updated" == pushed["change"]
    assert [("key.segments", "needs-empty-key")] == named(pushed)


def test_keys_of_other_types_and_limits_of_the_own_key_do_not_matter(aws: Cloud, api: Api):
    push(api, key=KEY)
    hold_a_key(aws, "sync-tickets-2")
    assert "updated" == push(api, key={"segments": ["a"]})["change"]
    hold_a_key(aws)
    same = {"segments": ["a"], "max_active": 9, "when_full": "coalesce"}
    assert "updated" == push(api, key=same)["change"]


def test_a_list_shows_the_jobs_of_each_type_when_it_is_asked_for_them(
    api: Api, projector: Counting
):
    push(api)
    _, page = api("GET", "/v1/types", query={"counts": "true"})
    assert [None] * 3 == [page["commands"], *(entry["jobs"] for entry in page["entries"])]
    stream = Stream()
    typed: dict[str, Any] = {"command": (), "type": "sync-tickets", "params": {}, "items": 40}
    projector.handle([stream.write("a", State.PENDING), stream.write("b", State.ACTIVE)])
    projector.handle([stream.write("c", State.PENDING, **typed)])
    _, page = api("GET", "/v1/types", query={"counts": "true"})
    none, one = {"jobs": 0, "items": 0}, {"jobs": 1, "items": 1}
    assert {"waiting": one, "running": one, "oldest": None} == page["commands"]
    assert [
        {"waiting": none, "running": none, "oldest": None},
        {"waiting": {"jobs": 1, "items": 40}, "running": none, "oldest": None},
    ] == [entry["jobs"] for entry in page["entries"]]
    status, problem = api("GET", "/v1/types", query={"counts": "perhaps"})
    assert (400, "counts") == (status, problem["errors"][0]["field"])


def test_a_type_that_comes_back_with_another_key_waits_for_the_old_jobs(aws: Cloud, api: Api):
    push(api, key=KEY)
    hold_a_key(aws)
    assert 204 == api.raw("DELETE", "/v1/types/sync-tickets")["statusCode"]
    status, _ = api("PUT", "/v1/types/sync-tickets", body())
    assert 409 == status
    created = push(api, key=KEY)
    assert ("created", 2) == (created["change"], created["version"])


def test_what_changes_of_a_definition():
    old = definition(key=KEY, defaults={"queue": "bulk", "env": {"A": "1"}})
    assert () == changes(old, definition(key=KEY, defaults={"queue": "bulk", "env": {"A": "1"}}))
    new = definition(key={"segments": ["b"]}, defaults={"env": {"A": "2"}}, python="3.12")
    expected = ["defaults.queue", "defaults.env", "key.segments", "python"]
    assert expected == [change.field for change in changes(old, new)]
    assert ["key", "key.max_active"] == [
        change.field for change in changes(definition(), definition(key=KEY))
    ]
    assert names_other_keys(definition(), definition(key=KEY))
    assert names_other_keys(definition(key=KEY), definition())
    assert not names_other_keys(definition(key=KEY), definition(key={**KEY, "max_queued": 1}))


# --- races


def test_a_push_that_comes_second_is_decided_again(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    push(api)
    write = TypeStore.push

    def late(self: TypeStore, tenant: str, new: TypeVersion) -> None:
        monkeypatch.setattr(TypeStore, "push", write)
        store_type(aws, description="first")  # by somebody else, between read and write
        write(self, tenant, new)

    monkeypatch.setattr(TypeStore, "push", late)
    answer = push(api, description="second")
    assert ("updated", 3) == (answer["change"], answer["version"])
    current = type_store(aws).version("acme", "sync-tickets", 3)
    assert current is not None
    assert "second" == current.definition.description


def test_pushes_that_always_come_second_are_asked_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    push(api)
    tries = []
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)

    def refuse(*_arguments: object) -> None:
        tries.append(1)
        raise Changed

    monkeypatch.setattr(TypeStore, "push", refuse)
    monkeypatch.setattr(TypeStore, "remove", refuse)
    assert 409 == api("PUT", "/v1/types/sync-tickets", body(items=None))[0]
    assert 409 == api("DELETE", "/v1/types/sync-tickets")[0]
    assert 2 * TRIES == len(tries)


# --- remove


def test_a_removed_type_takes_no_jobs_and_is_not_there(aws: Cloud, api: Api):
    push(api)
    jobs = Api(submission.build(configure(submission.Settings), aws.clients, time.time))
    typed = {"type": "sync-tickets", "params": {"origin": "acme"}}
    _, waits = jobs("POST", "/v1/jobs", typed)
    answer = api.raw("DELETE", "/v1/types/sync-tickets", {"reason": "unused"})
    assert (204, "") == (answer["statusCode"], answer["body"])
    assert [404, 404] == [api(method, "/v1/types/sync-tickets")[0] for method in ("GET", "DELETE")]
    assert 400 == jobs("POST", "/v1/jobs", typed)[0]
    assert ("pending", 1) == tuple(
        jobs("GET", f"/v1/jobs/{waits['id']}")[1][name] for name in ("state", "type_version")
    )
    assert None is not type_store(aws).version("acme", "sync-tickets", 1)  # for its agent


# --- bundles


def test_a_bundle_is_uploaded_by_a_signed_request(aws: Cloud):
    """Its length, its digest and that it is absent are signed."""
    clients = Clients(aws.session())
    api = Api(build(configure(Settings), clients, time.time))
    wanted = {"sha256": DIGEST, "size": len(ZIP), "architecture": "arm64"}
    status, answer = api("POST", "/v1/bundles", wanted)
    assert (200, False) == (status, answer["exists"])
    url = urlsplit(answer["upload"]["url"])
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert f"{DESCRIPTOR.bucket}.s3.us-east-1.amazonaws.com" == url.hostname
    assert f"/bundles/acme/{DIGEST}" == url.path
    assert "900" == query["X-Amz-Expires"]
    signed = set(query["X-Amz-SignedHeaders"].split(";"))
    assert {"host"} | {name.lower() for name in answer["upload"]["headers"]} == signed
    digest = base64.b64encode(hashlib.sha256(ZIP).digest()).decode()
    assert answer["upload"]["headers"] == {
        "Content-Length": str(len(ZIP)),
        "If-None-Match": "*",
        "x-amz-checksum-sha256": digest,
    }
    put_bundle(aws)
    assert (200, {"exists": True, "upload": None}) == api("POST", "/v1/bundles", wanted)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("sha256", DIGEST.upper()),
        ("sha256", "../" + DIGEST),
        ("sha256", DIGEST[:-1]),
        ("size", 0),
        ("size", MAX_BUNDLE_BYTES + 1),
        ("size", "5"),
        ("architecture", "riscv"),
    ],
)
def test_a_bundle_that_cannot_be_is_refused(api: Api, member: str, value: object):
    wanted = {"sha256": DIGEST, "size": 5, "architecture": "arm64", member: value}
    status, problem = api("POST", "/v1/bundles", wanted)
    assert (400, member) == (status, problem["errors"][0]["field"])


# --- who


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v1/types/a"), ("DELETE", "/v1/types/a"), ("POST", "/v1/bundles")],
)
def test_a_developer_changes_no_types(aws: Cloud, method: str, path: str):
    access = json.loads(FUNCTION_ENVIRONMENT["JOBLANE_ACCESS"])
    access["machines"]["client-acme"] = ["acme", "developer", "ci"]
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_ACCESS": json.dumps(access)}
    api = Api(build(Settings.model_validate(environment), aws.clients, time.time))
    status, problem = api(method, path, body())
    assert 403 == status
    assert "the role operator" in problem["detail"]
    assert 200 == api("GET", "/v1/types")[0]


def test_the_trail_has_pushes_removals_and_uploads(api: Api):
    wanted = {"sha256": DIGEST, "size": len(ZIP), "architecture": "arm64"}
    api("POST", "/v1/bundles", {**wanted, "reason": "a fix"})
    push(api, description="x" * 500, reason="a fix")
    push_refused(api, bundles={"arm64": "1" * 64})
    api.raw("DELETE", "/v1/types/sync-tickets", {"reason": "unused"})
    _, page = api("GET", "/v1/audit")
    removed, failed, pushed, uploaded = page["entries"]
    assert ("upload-bundle", wanted, "a fix") == tuple(
        uploaded[name] for name in ("action", "asked", "reason")
    )
    assert ("push-type", {"type": "sync-tickets"}, "a fix", None) == tuple(
        pushed[name] for name in ("action", "target", "reason", "refused")
    )
    assert ({"arm64": DIGEST}, "sync.tickets:sync_tickets") == (
        pushed["asked"]["bundles"],
        pushed["asked"]["entry"],
    )
    assert not {"params_schema", "description"} & pushed["asked"].keys()
    assert 400 == failed["refused"]["status"]
    assert ("remove-type", "unused") == (removed["action"], removed["reason"])


def test_who_pushed_a_version_stands_in_it(aws: Cloud, api: Api):
    push(api)
    version = type_store(aws).version("acme", "sync-tickets", 1)
    assert version is not None
    assert WHO == version.pushed_by
