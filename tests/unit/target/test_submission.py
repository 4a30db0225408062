"""Submissions with a target: which agents get the job, what is skipped, and what is refused."""

import json
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.job.groups import GroupStore
from joblane.formats.times import rfc3339
from joblane.group.record import MemberOf
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, Cloud
from tests.support.fleet import beat, every_message
from tests.support.jobs import named
from tests.support.requests import Api
from tests.support.types import store_type

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return api_at(aws)


def api_at(aws: Cloud, now: float = NOW, **environment: str) -> Api:
    settings = Settings.model_validate({**FUNCTION_ENVIRONMENT, **environment})
    return Api(build(settings, aws.clients, lambda: now))


def groups(aws: Cloud) -> GroupStore:
    return GroupStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)


def test_a_job_for_one_agent_goes_to_its_inbox(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    status, job = api("POST", "/v1/jobs", {"command": ["uptime"], "target": "host:web-1"})
    assert (202, "pending", "web-1", "host:web-1") == (
        status,
        job["state"],
        job["assigned"],
        job["target"],
    )
    assert "waits for a free slot of agent web-1, the only one that may run it" == job["reason"]
    head = aws.job(job["id"])
    assert (NOW_MS + 60_000, NOW_MS + 60_000) == (head.reply_by_ms, head.wake_at_ms)
    ((agent, message),) = every_message(aws, "web-1")
    assert ("web-1", job["id"]) == (agent, message["job_id"])
    assert [job["id"]] == [entry["id"] for entry in api("GET", "/v1/jobs")[1]["entries"]]


@pytest.mark.parametrize("run_at_ms", [None, NOW_MS + 3_600_000])
def test_a_name_alone_is_written_out(aws: Cloud, api: Api, run_at_ms: int | None):
    beat(aws, "web-1", NOW_MS)
    body: dict[str, Any] = {"command": ["a"], "target": "web-1"}
    if run_at_ms is not None:
        body["run_at"] = rfc3339(run_at_ms)
    status, job = api("POST", "/v1/jobs", body)
    assert (202, "host:web-1") == (status, job["target"])
    assert ("web-1" if run_at_ms is None else None) == job["assigned"]
    _, batch = api("POST", "/v1/jobs/batch", {"jobs": [body, {**body, "target": "web-2"}]})
    first, second = batch["entries"]
    assert ("host:web-1", 400) == (first["job"]["target"], second["status"])


def test_an_agent_with_a_name_that_is_a_label_has_to_be_written_out(aws: Cloud, api: Api):
    beat(aws, "web", NOW_MS)
    beat(aws, "w1", NOW_MS, labels={"group": "web.dev"})
    status, problem = api("POST", "/v1/jobs", {"command": ["a"], "target": "web"})
    assert 400 == status
    why = "target may mean host:web or the label group:web.dev; write the one you mean"
    assert why == problem["detail"]
    assert [] == api("GET", "/v1/jobs")[1]["entries"]


def test_requeue_looks_at_it_at_an_earlier_deadline(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    body = {"command": ["a"], "target": "host:web-1", "deadline": rfc3339(NOW_MS + 5_000)}
    _, job = api("POST", "/v1/jobs", {**body, "reply_timeout_s": 30})
    head = aws.job(job["id"])
    assert (NOW_MS + 30_000, NOW_MS + 5_000) == (head.reply_by_ms, head.wake_at_ms)


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (None, "no agent web-1 serves queue default"),
        ({"queues": ("bulk",)}, "no agent web-1 serves queue default"),
        ({"beat_ms": 0}, "agent web-1 is gone: its instance has ended"),
        (
            {"beat_ms": NOW_MS - 300_000},
            (
                "agent web-1 is gone: its lease is over, its last heartbeat was at "
                "2027-01-15T07:55:00.000Z"
            ),
        ),
        ({"mode": "cordoned"}, "agent web-1 is cordoned"),
        ({"mode": "draining"}, "agent web-1 is draining"),
    ],
)
def test_a_job_for_an_agent_that_takes_none_is_skipped_with_the_reason(
    aws: Cloud, api: Api, agent: dict[str, Any] | None, reason: str
):
    if agent is not None:
        beat(aws, "web-1", NOW_MS, **agent)
    status, job = api("POST", "/v1/jobs", {"command": ["a"], "target": "host:web-1"})
    assert (202, "skipped", reason, None) == (
        status,
        job["state"],
        job["reason"],
        job["assigned"],
    )
    head = aws.job(job["id"])
    assert (None, True) == (head.wake_at_ms, head.expires_at is not None)
    assert [] == every_message(aws, "web-1")


def test_a_broadcast_becomes_a_job_for_each_agent_that_matches(aws: Cloud, api: Api):
    for name, labels in {
        "web-3": {"group": "web.dev.us"},
        "web-1": {"group": "web.dev"},
        "web-2": {"group": "web.development"},
        "db-1": {"group": "db"},
    }.items():
        beat(aws, name, NOW_MS, labels=labels)
    beat(aws, "web-4", NOW_MS, labels={"group": "web.dev"}, mode="cordoned")
    beat(aws, "web-5", NOW_MS, labels={"group": "web.dev"}, queues=("bulk",))
    body = {"command": ["uptime"], "target": "group:web.dev", "priority": "high"}
    status, job = api("POST", "/v1/jobs", body)
    assert (202, "processing", "waits for its 2 members", 2, None) == (
        status,
        job["state"],
        job["reason"],
        job["members"],
        job["group"],
    )
    parent = aws.job(job["id"])
    assert parent.group is not None
    assert (2, 2) == (parent.group.begun, parent.group.placed)
    assert NOW_MS + 60_000 == parent.wake_at_ms
    assert ("web-1", "web-3") == groups(aws).roster(parent.group, 0)
    members = [aws.job(parent.group.id_of(index)) for index in range(2)]
    assert ["web-1", "web-3"] == [head.assigned for head in members]
    assert [MemberOf(job["id"], 0), MemberOf(job["id"], 1)] == [h.member_of for h in members]
    for head in members:
        assert (State.PENDING, NOW_MS + 60_000, None) == (
            head.state,
            head.reply_by_ms,
            head.wake_at_ms,
        )
        assert (None, 1, "high") == (head.spec.target, head.spec.retry.max_attempts, head.lane)
        assert parent.trace_id == head.trace_id
    sent = every_message(aws, "web-1", "web-2", "web-3", "web-4", "web-5", "db-1")
    assert [("web-1", members[0].job_id), ("web-3", members[1].job_id)] == [
        (agent, body["job_id"]) for agent, body in sent
    ]
    assert [job["id"]] == [entry["id"] for entry in api("GET", "/v1/jobs")[1]["entries"]]
    _, member = api("GET", f"/v1/jobs/{members[1].job_id}")
    assert ("web-3", job["id"], None) == (member["assigned"], member["group"], member["members"])


def test_members_are_tried_once_unless_the_submission_or_its_type_says_else(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    store_type(aws, defaults={"retry": {"max_attempts": 5}})
    typed = {"type": "sync-tickets", "params": {"origin": "acme", "tickets": [1]}}
    cases: list[tuple[dict[str, Any], int]] = [
        ({"command": ["a"]}, 1),
        ({"command": ["a"], "retry": {"max_attempts": 3}}, 3),
        ({"command": ["a"], "retry": {"backoff_s": [1]}}, 3),
        (typed, 5),
    ]
    for body, attempts in cases:
        _, job = api("POST", "/v1/jobs", {**body, "target": "_all"})
        group = aws.job(job["id"]).group
        assert group is not None, job
        assert attempts == aws.job(group.first).spec.retry.max_attempts


@pytest.mark.parametrize(
    ("agents", "reason"),
    [
        ([], "no agent matches group:web: no agent serves queue default"),
        (
            [{"labels": {"group": "db"}}],
            (
                "no agent matches group:web: the one agent of queue default does not have a label "
                "group=web or group=web.*"
            ),
        ),
        (
            [{"labels": {}}, {}],
            (
                "no agent matches group:web: none of the 2 agents of queue default has a label "
                "group=web or group=web.*"
            ),
        ),
        (
            [
                {"labels": {"group": "web"}, "mode": "cordoned"},
                {"labels": {"group": "web.x"}, "mode": "draining"},
                {"labels": {"group": "web.y"}, "beat_ms": NOW_MS - 999_999},
            ],
            (
                "no agent matches group:web: of the agents of queue default that would, "
                "1 cordoned, 1 draining"
            ),
        ),
    ],
)
def test_a_broadcast_that_matches_nobody_is_skipped(
    aws: Cloud, api: Api, agents: list[dict[str, Any]], reason: str
):
    for number, fields in enumerate(agents):
        beat(aws, f"a-{number}", NOW_MS, **fields)
    status, job = api("POST", "/v1/jobs", {"command": ["a"], "target": "group:web"})
    assert (202, "skipped", reason, 0) == (status, job["state"], job["reason"], job["members"])
    assert aws.job(job["id"]).expires_at is not None


def test_members_of_a_long_submission_share_it(aws: Cloud, api: Api):
    for name in ("web-1", "web-2"):
        beat(aws, name, NOW_MS)
    for words in (["a", "x" * 999], ["a", *["x" * 100_000] * 3]):
        body = {"command": words, "target": "_all", "reply_timeout_s": 7}
        _, job = api("POST", "/v1/jobs", body)
        parent = aws.job(job["id"])
        assert parent.group is not None
        claimed = aws.jobs.claim(named(parent.group.id_of(1)), "web-2", NOW_MS + 1)
        assert (job["id"], parent.payload, 7) == (
            claimed.spec_of,
            claimed.payload,
            claimed.spec.reply_timeout_s,
        )
        _, member = api("GET", f"/v1/jobs/{claimed.job_id}")
        assert words == member["command"]
        _, whole = api("GET", f"/v1/jobs/{job['id']}")
        assert ("_all", 7, words) == (whole["target"], whole["reply_timeout_s"], whole["command"])


def test_with_max_concurrency_only_so_many_members_begin(aws: Cloud, api: Api):
    for number in range(5):
        beat(aws, f"web-{number}", NOW_MS)
    body = {"command": ["a"], "target": "_all", "max_concurrency": 2, "max_failures": 1}
    _, job = api("POST", "/v1/jobs", body)
    group = aws.job(job["id"]).group
    assert group is not None
    assert (5, 2, 2, {0, 1}) == (group.members, group.begun, group.placed, set(group.open))
    assert aws.jobs.get(group.id_of(1)) is not None
    assert aws.jobs.get(group.id_of(2)) is None


def test_more_agents_than_a_group_may_have_are_refused(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("joblane.service.target.targets.MOST_MEMBERS", 2)
    for number in range(3):
        beat(aws, f"web-{number}", NOW_MS)
    status, problem = api("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    assert (400, "target matches 3 agents; a group has at most 2") == (status, problem["detail"])
    assert [] == api("GET", "/v1/jobs")[1]["entries"]


def test_a_group_needs_room_for_all_its_members(aws: Cloud):
    for number in range(3):
        beat(aws, f"web-{number}", NOW_MS)
    limits = json.dumps({"tenants": {"acme": {"jobs_waiting": 4}}})
    api = api_at(aws, JOBLANE_LIMITS=limits)
    assert 202 == api("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})[0]
    status, problem = api("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    assert (429, "jobs_waiting", 4) == (status, problem["limit"], problem["allowed"])
    assert "has 3 jobs waiting, and this one would become 3; the limit" in problem["detail"]
    assert 202 == api("POST", "/v1/jobs", {"command": ["a"]})[0]
    assert 429 == api("POST", "/v1/jobs", {"command": ["a"]})[0]


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"target": "web"}, "target", "names no agent that serves queue default; it must be _any"),
        ({"target": "host:a b"}, "target", "must name an agent after host:"),
        ({"target": "group:web."}, "target", "must have a value of segments"),
        ({"target": "_all", "concurrency": "per-customer"}, "target", "not allowed with concurr"),
        ({"reply_timeout_s": 5}, "reply_timeout_s", "allowed with a target only"),
        ({"target": "_all", "reply_timeout_s": 0}, "reply_timeout_s", "greater than or equal to 1"),
        ({"target": "host:a", "max_concurrency": 5}, "max_concurrency", "several agents only"),
        ({"target": "_all", "max_failures": 5}, "max_failures", "with max_concurrency only"),
    ],
)
def test_a_wrong_target_is_named_by_its_field(
    api: Api, fields: dict[str, Any], field: str, problem: str
):
    status, answer = api("POST", "/v1/jobs", {"command": ["a"], **fields})
    assert (400, field) == (status, answer["errors"][0]["field"])
    assert problem in answer["errors"][0]["problem"]


def test_a_type_with_a_key_has_no_target(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    store_type(aws, key={"segments": ["zendesk", "/origin"]})
    body = {"type": "sync-tickets", "params": {"origin": "acme", "tickets": [1]}}
    status, answer = api("POST", "/v1/jobs", {**body, "target": "host:web-1"})
    assert (400, "target") == (status, answer["errors"][0]["field"])
    assert "the type sync-tickets has a key" in answer["detail"]


def test_any_agent_is_no_target(api: Api):
    _, job = api("POST", "/v1/jobs", {"command": ["a"], "target": "_any"})
    assert (None, "waits in lane default") == (job["target"], job["reason"][:21])


def test_a_batch_takes_jobs_for_one_agent_and_no_broadcasts(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    jobs = [
        {"command": ["a"], "target": "host:web-1"},
        {"command": ["a"], "target": "_all"},
        {"command": ["a"], "target": "host:web-2"},
        {"command": ["a"]},
    ]
    status, answer = api("POST", "/v1/jobs/batch", {"jobs": jobs})
    first, second, third, fourth = answer["entries"]
    assert (200, 202, 400, 202, 202) == (
        status,
        first["status"],
        second["status"],
        third["status"],
        fourth["status"],
    )
    assert "must name one agent in a batch" in second["detail"]
    assert ("pending", "skipped", "pending") == (
        first["job"]["state"],
        third["job"]["state"],
        fourth["job"]["state"],
    )
    assert [("web-1", first["job"]["id"])] == [
        (agent, body["job_id"]) for agent, body in every_message(aws, "web-1", "web-2")
    ]


def test_a_repeated_request_is_answered_with_its_group(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    headers = {"idempotency-key": "k-1"}
    body = {"command": ["a"], "target": "_all"}
    _, first = api("POST", "/v1/jobs", body, headers=headers)
    beat(aws, "web-2", NOW_MS)
    status, again = api("POST", "/v1/jobs", body, headers=headers)
    assert (202, first["id"], 1) == (status, again["id"], again["members"])
    assert 1 == len(every_message(aws, "web-1", "web-2"))


def test_a_group_and_a_job_for_one_agent_are_resubmitted_as_new_ones(aws: Cloud, api: Api):
    _, skipped = api("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    _, host = api("POST", "/v1/jobs", {"command": ["a"], "target": "host:web-1"})
    beat(aws, "web-1", NOW_MS)
    status, group = api("POST", f"/v1/jobs/{skipped['id']}/resubmit")
    assert (202, "processing", 1, skipped["id"]) == (
        status,
        group["state"],
        group["members"],
        group["resubmit_of"],
    )
    status, job = api("POST", f"/v1/jobs/{host['id']}/resubmit")
    assert (202, "pending", "web-1") == (status, job["state"], job["assigned"])
    parent = aws.job(group["id"])
    assert parent.group is not None
    status, problem = api("POST", f"/v1/jobs/{parent.group.first}/resubmit")
    assert 409 == status
    assert f"member of group {group['id']}" in problem["detail"]


def test_a_resubmitted_group_tries_as_often_as_the_first_one(api: Api):
    body = {"command": ["a"], "target": "_all", "retry": {"max_attempts": 3}}
    _, skipped = api("POST", "/v1/jobs", body)
    _, again = api("POST", f"/v1/jobs/{skipped['id']}/resubmit")
    assert 3 == again["retry"]["max_attempts"]


def test_a_job_for_later_has_no_agents_and_no_message_yet(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    for target in ("_all", "host:web-1"):
        body = {"command": ["a"], "target": target, "run_at": rfc3339(NOW_MS + 30_000)}
        _, job = api("POST", "/v1/jobs", body)
        assert ("scheduled", None, None) == (job["state"], job["assigned"], job["members"])
    assert [] == every_message(aws, "web-1")


def test_a_group_is_processing_from_its_first_entry_on(aws: Cloud, api: Api):
    beat(aws, "web-1", NOW_MS)
    _, job = api("POST", "/v1/jobs", {"command": ["a"], "target": "_all"})
    assert ["processing"] == [step["state"] for step in job["timeline"]]


def test_a_reader_is_told_of_an_agent_that_did_not_reply_before_the_job_is_failed(aws: Cloud):
    beat(aws, "web-1", NOW_MS)
    _, job = api_at(aws)("POST", "/v1/jobs", {"command": ["a"], "target": "host:web-1"})
    _, in_time = api_at(aws, NOW + 59)("GET", f"/v1/jobs/{job['id']}")
    assert job["reason"] == in_time["reason"]
    _, late = api_at(aws, NOW + 60)("GET", f"/v1/jobs/{job['id']}")
    why = "agent web-1 did not respond within 60 s; the job fails within a minute"
    assert ("pending", why) == (late["state"], late["reason"])
    _, page = api_at(aws, NOW + 60)("GET", "/v1/jobs")
    assert why == page["entries"][0]["reason"]
