"""`GET /v1/jobs/{id}/why`: what it reads for each state, whose names it shows, what it costs."""

import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from functions.status.handler import Settings, build
from functions.submission.handler import Settings as SubmissionSettings
from functions.submission.handler import build as build_submission
from joblane.aws.clients import Clients
from joblane.aws.errors import AwsSilent
from joblane.aws.fleet.agents import SHARDS
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.job.groups import GroupStore
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.fleet.record import FleetRecord
from joblane.formats.ids import nth_id
from joblane.group.record import Group, begin_page, note_placed
from joblane.job.head import make_head
from joblane.job.member import member_job
from joblane.job.moves import AttemptFacts
from joblane.queue.settings import QueueSettings
from joblane.queue.shares import share_out
from joblane.service import why as service
from joblane.state.lease import AttemptProgress, Heartbeat, Progress
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud, configure
from tests.support.fleet import FLEET
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter
from tests.support.recovery import World
from tests.support.requests import Api


def now_ms() -> int:
    return int(time.time() * 1000)


def status(clients: Clients, client: str = "client-acme", **settings: str) -> Api:
    environment = {**FUNCTION_ENVIRONMENT, **settings}
    return Api(build(Settings.model_validate(environment), clients, time.time), client)


def why(aws: Cloud, job_id: str, client: str = "client-acme", **settings: str) -> dict[str, Any]:
    code, found = status(aws.clients, client, **settings)("GET", f"/v1/jobs/{job_id}/why")
    assert 200 == code, found
    assert job_id == found["id"]
    assert found["reasons"][0]["text"] in found["summary"]
    answer: dict[str, Any] = found
    return answer


def first(found: dict[str, Any]) -> dict[str, Any]:
    reason: dict[str, Any] = found["reasons"][0]
    return reason


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return Api(build_submission(configure(SubmissionSettings), aws.clients, time.time))


def submit(api: Api, **fields: Any) -> str:
    code, job = api("POST", "/v1/jobs", {"command": ["true"], **fields})
    assert 202 == code, job
    return str(job["id"])


def agent(name: str, *jobs: str, **changes: Any) -> Heartbeat:
    since = now_ms() - 60_000
    row = Heartbeat(
        name, since, now_ms(), 4, len(jobs), ("default", "bulk"), "full", "0.1.0", jobs, labels={}
    )
    return replace(row, **changes)


def queue_settings(aws: Cloud) -> SettingsStore:
    return SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))


def test_a_job_without_agents_says_so(aws: Cloud, api: Api):
    job_id = submit(api)
    found = why(aws, job_id)
    assert ("pending", "no_agents") == (found["state"], first(found)["code"])
    assert re.match(r"pending for \d+ s, since ", found["summary"])
    aws.agents.beat(agent("web-1", queues=("bulk",)))
    assert 1 == first(why(aws, job_id))["facts"]["others_alive"]
    aws.agents.beat(agent("web-2"))
    assert ("about_to_start", 4) == (
        first(found := why(aws, job_id))["code"],
        first(found)["facts"]["free"],
    )


@pytest.mark.parametrize(
    ("settings", "run_jobs", "moves"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"JOBLANE_QUEUES": '{"default": [], "bulk": ["other"]}'}, True, False),
        ({"JOBLANE_RETIRED": '{"bulk": null}'}, True, False),
        ({"JOBLANE_MAXIMA": '{"bulk": [{"memory_mb": 512}]}'}, True, False),
    ],
    ids=["open", "paused", "not the tenant's", "retired", "gives too little"],
)
def test_a_queue_that_would_take_the_job_is_named(
    aws: Cloud, api: Api, settings: dict[str, str], run_jobs: bool, moves: bool
):
    job_id = submit(api, resources={"memory_mb": 600})
    aws.agents.beat(agent("bulk-1", queues=("bulk",)))
    queue_settings(aws).put("bulk", QueueSettings(run_jobs=run_jobs, version=1), over=0)
    found = first(why(aws, job_id, **settings))
    assert "no_agents" == found["code"]
    assert moves is (f"joblane edit {job_id} --queue bulk" in found["commands"])


def test_agents_of_queues_that_other_tenants_have_alone_are_not_counted(aws: Cloud, api: Api):
    job_id = submit(api)
    before = why(aws, job_id, JOBLANE_QUEUES='{"default": [], "bulk": [], "theirs": ["other"]}')
    aws.agents.beat(agent("theirs-1", queues=("theirs",)))
    after = why(aws, job_id, JOBLANE_QUEUES='{"default": [], "bulk": [], "theirs": ["other"]}')
    assert 0 == first(after)["facts"]["others_alive"]
    assert first(before) == first(after)


@pytest.mark.parametrize(
    ("tenant", "shown"), [("acme", "person ann"), ("platform", "person ann"), ("other", None)]
)
def test_who_paused_a_queue_is_shown_as_with_the_queues_settings(
    aws: Cloud, api: Api, tenant: str, shown: str | None
):
    job_id = submit(api)
    paused = QueueSettings(
        run_jobs=False, version=1, changed_ms=1, changed_by="person ann", tenant=tenant
    )
    queue_settings(aws).put("default", paused, over=0)
    found = why(aws, job_id)
    assert ("paused", shown) == (first(found)["code"], first(found)["facts"]["changed_by"])
    assert ("ann" in str(found)) == (shown is not None)


def test_only_who_may_resume_a_queue_is_told_to(aws: Cloud, api: Api):
    for queue, may in (("default", False), ("bulk", True)):
        queue_settings(aws).put(queue, QueueSettings(run_jobs=False, version=1), over=0)
        found = first(why(aws, submit(api, queue=queue)))
        assert may is found["facts"]["may_change"]
        assert ("until an operator resumes it" in found["text"]) == may


def test_jobs_of_others_are_counted_and_not_shown(aws: Cloud, api: Api):
    job_id = submit(api)
    strange = nth_id(JOB, 1)
    aws.jobs.put_new(make_head(strange, "other", submission(env={"A": "b" * 400}), now_ms()))
    row = agent("web-1", strange, trouble="1 outcome(s) wait")
    aws.agents.beat(row)
    shares = share_out("default", 1, [("web-1", row.since_ms)], now_ms())
    limited = QueueSettings(cluster_threads=1, version=1, shares=shares)
    queue_settings(aws).put("default", limited, over=0)
    found = why(aws, job_id)
    assert "cluster_limit" == first(found)["code"]
    assert 1 == first(found)["facts"]["running"]
    assert "other" not in str(found)
    assert strange not in str(found)
    elsewhere = make_head(nth_id(JOB, 2), "other", submission(queue="bulk"), now_ms())
    aws.jobs.put_new(elsewhere)
    aws.agents.beat(replace(row, jobs=(elsewhere.job_id,)))
    assert "about_to_start" == first(why(aws, job_id))["code"]


def test_a_limit_whose_jobs_are_too_many_to_count_is_named_as_possible(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "COUNTED", 1)
    job_id = submit(api)
    aws.agents.beat(agent("web-1", nth_id(JOB, 1), nth_id(JOB, 2)))
    queue_settings(aws).put("default", QueueSettings(threads=2, version=1), over=0)
    assert "stops 1 agent whose jobs were too many to count" in first(why(aws, job_id))["text"]


def test_what_no_fleet_gives_any_more_is_named(aws: Cloud):
    """Submission refuses it; joblane.toml gave more when this job came."""
    large = submission(resources={"memory_mb": 8192})
    aws.jobs.put_new(make_head(JOB, "acme", large, now_ms()))
    found = first(why(aws, JOB))
    assert ("too_large", "memory_mb", 8192, 4096) == (
        found["code"],
        found["facts"]["field"],
        found["facts"]["asked"],
        found["facts"]["most"],
    )


def test_agents_that_were_not_read_are_not_said_to_be_absent(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service, "PER_SHARD", 1)
    for n in range(SHARDS + 1):
        aws.agents.beat(agent(f"agent-{n}", queues=("bulk",)))
    found = first(why(aws, submit(api)))
    assert ("no_agents", True) == (found["code"], found["facts"]["more"])
    assert "there are more, which were not read" in found["text"]


def test_a_lane_that_sqs_does_not_answer_for_is_left_out(aws: Cloud, api: Api):
    job_id = submit(api)

    def refuse(**_: object) -> None:
        raise AwsSilent(error="sqs")

    aws.agents.beat(agent("web-1"))
    aws.emitter().register("before-call.sqs", refuse)
    assert ["about_to_start"] == [reason["code"] for reason in why(aws, job_id)["reasons"]]


def test_what_other_messages_wait_is_estimated(aws: Cloud, api: Api):
    submit(api, priority="high")
    submit(api)
    reasons = {reason["code"]: reason for reason in why(aws, submit(api))["reasons"]}
    facts = reasons["jobs_ahead"]["facts"]
    assert (2, 1) == (facts["in_lane"], facts["in_higher_lanes"])
    reasons = {
        reason["code"]: reason for reason in why(aws, submit(api, priority="low"))["reasons"]
    }
    assert (1, 3) == (
        reasons["jobs_ahead"]["facts"]["in_lane"],
        reasons["jobs_ahead"]["facts"]["in_higher_lanes"],
    )


def test_a_job_that_waits_for_its_key_names_the_holder(aws: Cloud, api: Api):
    concurrency = {"key": ["customer", "a b"], "max_queued": 5}
    ids = [submit(api, concurrency=concurrency) for _ in range(3)]
    held, place = why(aws, ids[2])["reasons"]
    assert ("key_held", [ids[0]], "pending") == (
        held["code"],
        held["facts"]["holders"],
        held["facts"]["holder_state"],
    )
    assert "joblane keys get command customer 'a b'" == held["commands"][1]
    assert ("key_queue", 2, 2) == (
        place["code"],
        place["facts"]["position"],
        place["facts"]["queued"],
    )


def test_a_blocked_job_shows_its_condition_and_the_next_test(aws: Cloud):
    world = World(aws, aws.clients)
    (job_id,) = world.submit_and_block("http:https://api.example.com/health", 1)
    world.machine.run(15)
    built = build(configure(Settings), aws.clients, world.clock)
    code, found = Api(built)("GET", f"/v1/jobs/{job_id}/why")
    assert 200 == code
    condition, test = found["reasons"][:2]
    assert ("condition", 1, "https://api.example.com/health allows 0") == (
        condition["code"],
        condition["facts"]["tests"],
        condition["facts"]["found"],
    )
    assert "condition_test" == test["code"]
    assert test["facts"]["next_test_at"]


def test_a_running_job_shows_what_it_reported(aws: Cloud, api: Api):
    job_id = submit(api)
    head = aws.jobs.claim(named(job_id), "web-1", now_ms())
    said = AttemptProgress(job_id, head.epoch, Progress(40, "half", now_ms()))
    aws.agents.beat(agent("web-1", job_id, progress=(said,)))
    (reason,) = why(aws, job_id)["reasons"]
    assert ("running", 40, "half") == (
        reason["code"],
        reason["facts"]["percent"],
        reason["facts"]["message"],
    )
    aws.agents.end_lease("web-1")
    assert "agent_lost" == first(why(aws, job_id))["code"]


def test_a_job_between_two_attempts_and_one_that_has_ended(aws: Cloud, api: Api):
    job_id = submit(api)
    head = aws.jobs.claim(named(job_id), "web-1", now_ms())
    later = now_ms() + 30_000
    step = Step(State.RETRY, now_ms(), 1, "exit code 3 (attempt 1 of 3)", "web-1")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, 3, next_at_ms=later))
    assert ["backoff", "last_attempt"] == [r["code"] for r in why(aws, job_id)["reasons"]]
    ended = submit(api)
    api("POST", f"/v1/jobs/{ended}/cancel")
    reason = first(why(aws, ended))
    assert ("ended", f"joblane resubmit {ended}") == (reason["code"], reason["commands"][1])


def test_a_group_counts_its_open_members(aws: Cloud):
    store = GroupStore(aws.clients.make("dynamodb"), FUNCTION_ENVIRONMENT["JOBLANE_JOBS_TABLE"])
    group = begin_page(Group(3, nth_id(JOB, 10)))
    head = make_head(JOB, "acme", submission(target="_all"), now_ms())
    step = Step(State.PROCESSING, now_ms(), 0, "waits for its 3 members")
    head = replace(
        head, state=State.PROCESSING, group=note_placed(group, 3), timeline=(*head.timeline, step)
    )
    aws.jobs.put_new(head)
    for index in range(3):
        store.put_member(member_job(head, index, f"web-{index}", now_ms(), inline=True))
    aws.jobs.claim(named(group.id_of(1)), "web-1", now_ms())
    reason, other = why(aws, JOB)["reasons"]
    assert "assigned_agent" == other["code"]
    assert other["text"].startswith("agent web-0: only agent web-0 may run it: ")
    assert ["2 pending", "1 active"] == reason["facts"]["open_states"]
    assert (3, 3, group.id_of(0)) == (
        reason["facts"]["open"],
        reason["facts"]["looked_at"],
        reason["facts"]["first"],
    )


def test_a_job_of_another_tenant_does_not_exist(aws: Cloud, api: Api):
    job_id = submit(api)
    api = status(aws.clients, "client-other")
    assert 404 == api("GET", f"/v1/jobs/{job_id}/why")[0]
    assert 404 == api("GET", f"/v1/jobs/{nth_id(JOB, 1)}/why")[0]
    assert 404 == api("GET", "/v1/jobs/none/why")[0]


@pytest.fixture(name="meter")
def _meter(aws: Cloud) -> tuple[Meter, Api]:
    meter = Meter()
    return meter, status(meter.clients_of(aws))


def test_a_job_in_a_lane_costs_the_same_however_much_there_is(
    aws: Cloud, api: Api, meter: tuple[Meter, Api]
):
    """Every agent has jobs to be counted."""
    counts, ask = meter
    long = {"A": "b" * 400}
    running = [submit(api, env=long) for _ in range(3)]
    for n in range(SHARDS * 4):
        aws.agents.beat(agent(f"agent-{n}", *running))
    queue_settings(aws).put("default", QueueSettings(threads=3, version=1), over=0)
    ask("GET", f"/v1/jobs/{submit(api, priority='low')}/why")
    assert {
        "dynamodb.GetItem": 1,
        "dynamodb.Query": SHARDS,
        "dynamodb.BatchGetItem": 2,
        "sqs.GetQueueAttributes": 3,
    } == counts.calls


def test_what_the_scaler_wrote_is_said_and_costs_one_read(
    aws: Cloud, api: Api, meter: tuple[Meter, Api]
):
    counts, _ = meter
    session = aws.session()
    counts.attach(session, aws.clients.make("dynamodb"))
    fleets = [
        {**FLEET, "name": name, "queues": [queue]}
        for name, queue in (("main", "default"), ("spare", "default"), ("other", "bulk"))
    ]
    ask = status(Clients(session), JOBLANE_FLEETS=json.dumps(fleets))
    records = FleetRecords(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    record = FleetRecord(now_ms(), 9, 4, 4, 4, 0, 0, 0, limit="max")
    for name in ("main", "other"):
        records.write(name, record)
    job_id = submit(api)
    counts.reset()
    status_code, answer = ask("GET", f"/v1/jobs/{job_id}/why")
    assert (200, ["fleet_max", "no_agents"]) == (
        status_code,
        [reason["code"] for reason in answer["reasons"]],
    )
    assert "main" == answer["reasons"][0]["facts"]["fleet"]
    assert 2 == counts.calls["dynamodb.BatchGetItem"]


def test_fleets_that_cannot_be_read_leave_the_rest_of_the_answer(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object) -> None:
        raise AwsSilent(error="https://dynamodb")

    monkeypatch.setattr(FleetRecords, "read_all", away)
    found = why(aws, submit(api), JOBLANE_FLEETS=json.dumps([FLEET]))
    assert ["no_agents", "fleet_unread"] == [reason["code"] for reason in found["reasons"]]


def test_without_fleets_nothing_is_said_of_them(aws: Cloud, api: Api):
    """Agents on machines of one's own need none."""
    ask = status(aws.clients, JOBLANE_FLEETS="[]")
    _, answer = ask("GET", f"/v1/jobs/{submit(api)}/why")
    assert ["no_agents"] == [reason["code"] for reason in answer["reasons"]]


def test_only_lanes_that_are_served_first_are_asked_for(api: Api, meter: tuple[Meter, Api]):
    counts, ask = meter
    ask("GET", f"/v1/jobs/{submit(api, priority='high')}/why")
    assert 1 == counts.calls["sqs.GetQueueAttributes"]


def test_other_states_cost_two_reads_beside_the_job(aws: Cloud, api: Api, meter: tuple[Meter, Api]):
    counts, ask = meter
    concurrency = {"key": ["a"], "max_queued": 5}
    holder = submit(api, concurrency=concurrency)
    waiter = submit(api, concurrency=concurrency)
    later = submit(api, run_at="2999-01-01T00:00:00Z")
    ended = submit(api)
    api("POST", f"/v1/jobs/{ended}/cancel")
    again = submit(api)
    step = Step(State.RETRY, now_ms(), 1, "exit code 3", "web-1")
    facts = AttemptFacts(Outcome.FAILED, 3, next_at_ms=now_ms() + 60_000)
    aws.jobs.settle(aws.jobs.claim(named(again), "web-1", now_ms()), step, facts)
    aws.jobs.claim(named(holder), "web-1", now_ms())
    for job_id, calls in (
        (again, {"dynamodb.GetItem": 1, "dynamodb.BatchGetItem": 1}),
        (holder, {"dynamodb.GetItem": 2}),
        (waiter, {"dynamodb.GetItem": 2, "dynamodb.BatchGetItem": 1}),
        (later, {"dynamodb.GetItem": 1, "dynamodb.BatchGetItem": 1}),
        (ended, {"dynamodb.GetItem": 1}),
    ):
        counts.reset()
        assert 200 == ask("GET", f"/v1/jobs/{job_id}/why")[0]
        assert calls == counts.calls
