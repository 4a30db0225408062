"""Feeds: all jobs of a tenant are told of on the event bus; what rows have for it, its price."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.notifier import handler as notifier
from functions.sequel import handler as sequel
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.items import TELLS
from joblane.aws.job.jobs import JobStore
from joblane.deployment.names import notify_name
from joblane.formats.times import rfc3339, unix_ms
from joblane.job.moves import AttemptFacts
from joblane.notify.event_names import EVENT_NAMES
from joblane.notify.scope import EventScope
from joblane.service.notify.notifications import FEED_BYTES
from joblane.service.notify.notifier import FEED
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME, PREFIX, configure
from tests.support.crash_points import Killed, Process
from tests.support.fleet import beat
from tests.support.jobs import named
from tests.support.keyed import NOW, NOW_MS, Deployed
from tests.support.meter import Meter
from tests.support.requests import REQUEST_ID, Api
from tests.support.told import take_deliveries, told_by

QUEUE = PREFIX + notify_name(NAME)
RULES = json.loads(FUNCTION_ENVIRONMENT["JOBLANE_NOTIFY"])


def environment(scope: EventScope | None) -> dict[str, str]:
    """The environment of a function, where `acme` has such a feed, or none."""
    events = {} if scope is None else {"acme": scope}
    return {**FUNCTION_ENVIRONMENT, "JOBLANE_NOTIFY": json.dumps({**RULES, "events": events})}


def api_of(clients: Clients, scope: EventScope | None) -> Api:
    """The function of submissions."""
    return Api(build(Settings.model_validate(environment(scope)), clients, lambda: NOW))


def rows(at: Deployed) -> Iterator[dict[str, Any]]:
    """The rows of jobs, as records of the stream have them."""
    for record in at.stream.take():
        if record["dynamodb"]["Keys"]["sk"]["S"] == "JOB":
            yield record["dynamodb"]["NewImage"]


def run(jobs: JobStore, job_id: str, agent: str = "i-0123456789abcdef0") -> None:
    """An agent runs a job to its end."""
    head = jobs.claim(named(job_id), agent, NOW_MS + 100)
    step = Step(State.COMPLETED, NOW_MS + 200, head.attempt, "exit code 0 after 0.1 s")
    jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 999))


def deliver(at: Deployed, scope: EventScope | None) -> tuple[list[str], list[list[dict[str, Any]]]]:
    """Have `notifier` deliver what is in the queue; returns what failed, and what the bus got."""
    entries: list[list[dict[str, Any]]] = []
    emitter, clients = at.own_clients()
    emitter.register(
        "before-parameter-build.events.PutEvents",
        lambda params, **_: entries.append(params["Entries"]),
    )
    settings = notifier.Settings.model_validate(environment(scope))
    records = [
        {"messageId": f"m{n}", "receiptHandle": "r", "body": each.model_dump_json()}
        for n, each in enumerate(take_deliveries(at.messages, QUEUE))
    ]
    failed = notifier.build(settings, clients, lambda: NOW).handle(records)
    return failed, entries


@pytest.mark.parametrize(
    ("scope", "told"), [(None, []), ("jobs", ["jobs"]), ("members", ["members"])]
)
def test_a_job_has_what_it_tells_in_its_row_and_others_have_nothing(
    at: Deployed, scope: EventScope | None, told: list[str]
):
    api = api_of(at.aws.clients, scope)
    api("POST", "/v1/jobs", {"command": ["true"]})
    (row,) = rows(at)
    assert told == [row[TELLS]["S"]] if told else TELLS not in row
    assert {"S": REQUEST_ID} == row["request"]
    api("POST", "/v1/jobs", {"command": ["true"], "notify": {"eventbridge": True}})
    (row,) = rows(at)
    assert " ".join(["notify", *told]) == row[TELLS]["S"]


@pytest.mark.parametrize(("scope", "told"), [(None, None), ("jobs", None), ("members", "jobs")])
def test_members_of_a_group_are_told_of_only_if_that_was_asked(
    at: Deployed, scope: EventScope | None, told: str | None
):
    beat(at.aws, "web-1", NOW_MS)
    body = {"command": ["true"], "target": "_all"}
    status, group = api_of(at.aws.clients, scope)("POST", "/v1/jobs", body)
    assert (202, 1) == (status, group["members"])
    found = {row["job_id"]["S"]: row for row in rows(at)}
    (member,) = (row for job_id, row in found.items() if job_id != group["id"])
    assert told == member.get(TELLS, {}).get("S")
    assert ("request" in member) == (told is not None)


@pytest.mark.parametrize("long", [False, True])
def test_members_notify_if_their_group_asked_for_it(at: Deployed, long: bool):
    """Also those whose submission is that of their group, in another item."""
    api = api_of(at.aws.clients, None)
    array = {"first": 5, "last": 6}
    body = {"command": ["true"], "array": array, "env": {"A": "x" * 999 * long}}
    notify = {"eventbridge": True, "on": ["completed"]}
    api("POST", "/v1/jobs", {**body, "notify": notify})
    found = {row["job_id"]["S"]: row for row in rows(at)}
    assert ["notify"] == [row[TELLS]["S"] for row in found.values() if TELLS in row]
    group = api("POST", "/v1/jobs", {**body, "notify": {**notify, "members": True}})[1]
    found = {row["job_id"]["S"]: row for row in rows(at)}
    assert ["notify"] * 3 == [row[TELLS]["S"] for row in found.values()]
    assert {REQUEST_ID} == {row["request"]["S"] for row in found.values()}
    for member in sorted(found.keys() - {group["id"]}):
        run(at.aws.jobs, member)
    at.deliver()  # the group ends
    at.deliver()
    entries = at.memory.queues.entries[QUEUE].values()
    events = [(each.group, json.loads(each.body)["events"][0]) for each in entries]
    assert [
        ("acme#progress", group["id"], 5, "job.completed"),
        ("acme#progress", group["id"], 6, "job.completed"),
        ("acme", None, None, "job.completed"),
    ] == [(of, event["group"], event["index"], event["event"]) for of, event in events]


def test_a_feed_has_each_transition_and_the_group_of_a_member(at: Deployed):
    beat(at.aws, "web-1", NOW_MS)
    body = {"command": ["true"], "target": "_all"}
    group = api_of(at.aws.clients, "members")("POST", "/v1/jobs", body)[1]
    (member,) = (r["job_id"]["S"] for r in rows(at) if r["job_id"]["S"] != group["id"])
    run(at.aws.jobs, member, "web-1")
    at.deliver()  # the group ends
    at.deliver()
    fed = sorted(told_by(at.messages, QUEUE)[1], key=lambda event: int(event.sequence))
    assert [
        (member, "job.started", group["id"]),
        (member, "job.completed", group["id"]),
        (group["id"], "job.completed", None),
    ] == [(event.job_id, event.event, event.group) for event in fed]
    assert {REQUEST_ID} == {event.request_id for event in fed}
    assert {fed[2].trace_id} == {event.trace_id for event in fed}


def test_ten_events_of_a_tenant_are_one_message_and_one_request(at: Deployed):
    api = api_of(at.aws.clients, "jobs")
    for _ in range(12):
        api("POST", "/v1/jobs", {"command": ["true"]})
    at.deliver()
    failed, entries = deliver(at, "jobs")
    assert ([], [10, 2]) == (failed, sorted(map(len, entries), reverse=True))
    details = [json.loads(entry["Detail"]) for request in entries for entry in request]
    assert {"job.submitted"} == {detail["event"] for detail in details}
    assert 12 == len({detail["id"] for detail in details})


def test_large_events_are_fewer_in_a_message(at: Deployed):
    """SQS and EventBridge take 256 KB in one request of ten."""
    api = api_of(at.aws.clients, "jobs")
    labels = {f"{n:063d}": "x" * 200 for n in range(20)}
    for _ in range(10):
        assert 202 == api("POST", "/v1/jobs", {"command": ["true"], "labels": labels})[0]
    at.deliver()
    found = take_deliveries(at.messages, QUEUE)
    assert 10 == sum(len(each.events) for each in found)
    for each in found:
        size = sum(len(event.model_dump_json()) for event in each.events)
        assert size <= FEED_BYTES
    assert 1 < len(found) < 10


def test_ends_progress_and_feeds_wait_in_message_groups_of_their_own(at: Deployed):
    """SQS serves groups in turn: what `started` has too much of does not hold up ends."""
    notify = {"eventbridge": True, "on": list(EVENT_NAMES)}
    job = api_of(at.aws.clients, "jobs")(
        "POST", "/v1/jobs", {"command": ["true"], "notify": notify}
    )[1]
    run(at.aws.jobs, job["id"])
    at.deliver()
    entries = at.memory.queues.entries[QUEUE].values()
    groups = [(entry.group, json.loads(entry.body)["events"][0]["event"]) for entry in entries]
    assert [
        ("acme#progress", "job.submitted"),
        ("acme#progress", "job.started"),
        ("acme", "job.completed"),
        ("acme#feed", "job.submitted"),
    ] == groups


@pytest.mark.parametrize(("scope", "put"), [("members", 2), ("jobs", 1), (None, 0)])
def test_what_joblane_toml_does_not_ask_for_any_more_is_dropped(
    at: Deployed, scope: EventScope | None, put: int
):
    """No receiver waits for it, so it is no failed notification."""
    beat(at.aws, "web-1", NOW_MS)
    body = {"command": ["true"], "target": "_all"}
    api_of(at.aws.clients, "members")("POST", "/v1/jobs", body)
    at.deliver()
    failed, entries = deliver(at, scope)
    assert ([], put) == (failed, sum(map(len, entries)))


def test_events_of_which_the_bus_refuses_one_are_put_again(
    at: Deployed, caplog: pytest.LogCaptureFixture
):
    api = api_of(at.aws.clients, "jobs")
    for _ in range(2):
        api("POST", "/v1/jobs", {"command": ["true"]})
    at.deliver()
    (message,) = take_deliveries(at.messages, QUEUE)
    emitter, clients = at.own_clients()

    def refuse(parsed: dict[str, Any], **_: Any) -> None:
        refused = {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}
        parsed.update(FailedEntryCount=1, Entries=[{"EventId": "1"}, refused])

    emitter.register("after-call.events.PutEvents", refuse)
    function = notifier.build(
        notifier.Settings.model_validate(environment("jobs")), clients, lambda: NOW
    )
    record = {"messageId": "m", "receiptHandle": "r", "body": message.model_dump_json()}
    assert ["m"] == function.handle([record])
    said = vars(next(r for r in caplog.records if "not delivered" in r.getMessage()))
    assert "EventBridge refused the event: ThrottlingException: slow down" == said["problem"]
    assert (FEED, [event.id for event in message.events]) == (said["to"], said["ids"])


def test_a_job_of_a_feed_costs_four_write_units_and_its_part_of_two_messages(
    at: Deployed, meter: Meter
):
    """And one that tells nothing the same without the messages."""
    scopes: list[EventScope | None] = [None, "jobs"]
    for scope in scopes:
        at.reset()
        clients = meter.clients_of(at.aws)
        api = api_of(clients, scope)
        api("POST", "/v1/jobs/batch", {"jobs": [{"command": []}]})  # reads the figures of limits
        at.stream.take()
        meter.reset()
        ids = [api("POST", "/v1/jobs", {"command": ["true"]})[1]["id"] for _ in range(10)]
        jobs = JobStore(clients.make("dynamodb"), DESCRIPTOR.jobs_table)
        for job_id in ids:
            run(jobs, job_id)
        assert (40, 0) == (meter.write_units, meter.reads)
        calls = {"dynamodb.PutItem": 10, "dynamodb.UpdateItem": 20, "sqs.SendMessage": 10}
        assert calls == meter.calls
        meter.reset()
        at.function(clients).handle(at.stream.take())
        # Thirty events are three messages of one request; each is a PutEvents of ten.
        expected = {} if scope is None else {"sqs.SendMessageBatch": 1}
        assert expected == meter.calls
        found = take_deliveries(at.messages, QUEUE)
        assert ([] if scope is None else [10] * 3) == [len(each.events) for each in found]


def test_killed_after_any_call_every_event_is_told(at: Deployed):
    """Of a batch that comes again, events that were sent come again with the same ids."""
    process, settings = Process(at.memory), configure(sequel.Settings)

    def kill_at(point: int) -> bool:
        at.reset()
        api = api_of(at.aws.clients, "jobs")
        notify = {"eventbridge": True, "on": ["started", "completed"]}
        for n in range(6):
            long = {"A": "x" * 999 * (n % 2)}  # in the item DATA
            body = {"command": ["true"], "notify": notify, "env": long}
            run(at.aws.jobs, api("POST", "/v1/jobs", body)[1]["id"])
        records = at.stream.take()
        died = False
        process.starts(point)
        try:
            sequel.build(settings, process.clients, lambda: NOW, Inline).handle(records)
        except Killed:
            died = True
        at.function(at.aws.clients).handle(records)
        asked, fed = told_by(at.messages, QUEUE)
        assert 12 == len({event.id for event in asked})
        assert 18 == len({event.id for event in fed})
        return died

    process.visit(kill_at, least=4)


def test_nothing_that_a_job_runs_with_or_leaves_is_in_a_feed(at: Deployed):
    word = "secret-word"
    reference = f"secretsmanager:{NAME}/acme/{word}"
    body = {
        "command": ["sh", "-c", word],
        "env": {"PASSWORD": word},
        "secret_env": {"TOKEN": reference},
        "stdin": word,
        "outputs": [word],
        "notify": {"url": f"https://a.example/{word}"},
    }
    job_id = api_of(at.aws.clients, "jobs")("POST", "/v1/jobs", body)[1]["id"]
    head = at.aws.jobs.claim(named(job_id), "i-0123456789abcdef0", NOW_MS + 100)
    step = Step(State.COMPLETED, NOW_MS + 200, head.attempt, "exit code 0 after 0.1 s")
    facts = AttemptFacts(Outcome.SUCCEEDED, exit_code=0, result=f'"{word}"')
    at.aws.jobs.settle(head, step, facts)
    at.deliver()
    _, entries = deliver(at, "jobs")
    details = [entry["Detail"] for request in entries for entry in request]
    assert 3 == len(details)
    assert word not in "".join(details)


def test_an_edit_is_no_event_and_what_a_job_tells_stays(at: Deployed):
    """The submission moves out of the row by it."""
    api = api_of(at.aws.clients, "jobs")
    notify = {"eventbridge": True, "on": ["started"]}
    body = {"command": ["true"], "notify": notify}
    job_id = api("POST", "/v1/jobs", body)[1]["id"]
    at.deliver()
    take_deliveries(at.messages, QUEUE)
    labels = {f"label-{n}": "x" * 60 for n in range(8)}
    status, job = api("PATCH", f"/v1/jobs/{job_id}", {"labels": labels, "priority": "high"})
    assert (200, labels) == (status, job["labels"])
    at.deliver()
    assert [] == take_deliveries(at.messages, QUEUE)
    at.aws.jobs.claim(named(job_id, "default/high", 1), "i-0123456789abcdef0", NOW_MS + 100)
    at.deliver()
    asked, fed = told_by(at.messages, QUEUE)
    assert asked == fed
    assert [("job.started", labels, REQUEST_ID)] == [
        (event.event, event.labels, event.request_id) for event in asked
    ]


def test_a_claim_of_a_scheduled_job_is_two_events(at: Deployed):
    """Its message was delayed until its time: one write makes it pending and active."""
    api = api_of(at.aws.clients, "jobs")
    run_at = rfc3339(NOW_MS + 5_000)
    job_id = api("POST", "/v1/jobs", {"command": ["true"], "run_at": run_at})[1]["id"]
    head = at.aws.jobs.claim(named(job_id), "agent-1", NOW_MS + 5_001)
    at.deliver()
    found = told_by(at.messages, QUEUE)[1]
    events = sorted(found, key=lambda event: int(event.sequence))
    assert [
        ("job.submitted", None, State.SCHEDULED, 0, 0, None),
        ("job.released", State.SCHEDULED, State.PENDING, 0, 0, None),
        ("job.started", State.PENDING, State.ACTIVE, 1, 1, rfc3339(NOW_MS + 5_001)),
    ] == [(e.event, e.previous_state, e.state, e.epoch, e.attempt, e.started_at) for e in events]
    assert 3 == len({event.id for event in events})
    assert "its run_at has come" == events[1].reason
    assert [head.timeline[-1].at_ms] * 2 == [unix_ms(event.at) for event in events[1:]]
