"""The routes of schedules: what is saved, shown, changed and refused."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.submission import handler as submission
from joblane.aws.schedule.due_queue import DueMessage
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.deployment.names import due_name
from joblane.formats.times import rfc3339, unix_ms
from joblane.schedule.fields import Template
from joblane.schedule.record import Schedule
from joblane.service.schedule.starts import Starts
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, NAME, PREFIX, Cloud, configure
from tests.support.requests import ALL, Api
from tests.support.types import store_type

NOON = datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp()
NIGHTLY = {
    "name": "nightly",
    "cron": "0 2 * * *",
    "zone": "Europe/Berlin",
    "submission": {"command": ["make", "backup"]},
}
SOON = {"name": "poll", "every_s": 300, "submission": {"command": ["./poll"]}}


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock(NOON)


@pytest.fixture(name="api")
def _api(aws: Cloud, clock: Clock) -> Api:
    return Api(submission.build(configure(submission.Settings), aws.clients, clock))


def store(aws: Cloud) -> ScheduleStore:
    return ScheduleStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)


def sent(aws: Cloud) -> list[tuple[DueMessage, int]]:
    """Messages of the queue `due`, with their delays."""
    found = aws.clients.make("sqs").receive_message(
        QueueUrl=PREFIX + due_name(NAME), MaxNumberOfMessages=10
    )
    return [(DueMessage.decode(each["Body"]), 0) for each in found.get("Messages", [])]


def test_a_schedule_is_saved_and_shown(api: Api) -> None:
    status, made = api("POST", "/v1/schedules", NIGHTLY)
    assert 201 == status, made
    assert made == api("GET", "/v1/schedules/nightly")[1]
    assert ("acme", "make backup", "skip", 1, None) == (
        made["tenant"],
        made["what"],
        made["overlap"],
        made["version"],
        made["why"],
    )
    assert {"command": ["make", "backup"]} == made["submission"]
    assert {
        "due_at": "2026-03-28T01:00:00.000Z",
        "local": "2026-03-28T02:00:00+01:00",
        "starts_at": "2026-03-28T01:00:00.000Z",
    } == made["next"]
    assert ["2026-03-28T02:00:00+01:00", "2026-03-29T03:00:00+02:00"] == [
        each["local"] for each in made["next_times"][:2]
    ]
    (warning,) = made["warnings"]
    assert warning.startswith("Europe/Berlin, 2026-03-29: there is no time from 02:00 to 03:00")
    assert [] == made["results"]
    status, page = api("GET", "/v1/schedules")
    assert ["nightly"] == [each["name"] for each in page["entries"]]
    assert "submission" not in page["entries"][0]


def test_schedules_are_listed_by_name_in_pages(api: Api) -> None:
    for name in ("c", "a", "b"):
        assert 201 == api("POST", "/v1/schedules", {**NIGHTLY, "name": name})[0]
    _, first = api("GET", "/v1/schedules", query={"limit": "2"})
    assert ["a", "b"] == [each["name"] for each in first["entries"]]
    _, second = api("GET", "/v1/schedules", query={"limit": "2", "next": first["next"]})
    assert (["c"], None) == ([each["name"] for each in second["entries"]], second["next"])
    _, jobs = api("GET", "/v1/jobs")
    assert [] == jobs["entries"]


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"cron": "* * * * * *"}, "cron", "has 6 fields; 5 are allowed"),
        ({"cron": "@reboot"}, "cron", "belongs to no machine"),
        ({"cron": "0 0 31 2 *"}, "cron", "is never due"),
        ({"zone": "Berlin"}, "zone", "IANA"),
        ({"cron": None, "every_s": 30}, "every_s", "60"),
        ({"start": "2027-01-02T00:00:00Z", "end": "2027-01-01T00:00:00Z"}, "end", "after start"),
        ({"end": "2026-03-27T13:00:00Z"}, "end", "must not be before the next due time"),
        ({"start": "9999-12-31T12:00:00Z"}, "start", "leaves no due time"),
        ({"name": "Nightly"}, "name", "pattern"),
        ({"submission": {"command": []}}, "submission.command", "required"),
        ({"submission": {"command": ["a"], "queue": "gone"}}, "queue", ""),
        ({"submission": {"command": ["a"], "inputs": [{"path": "a", "sha256": "0" * 64}]}}, "", ""),
        ({"submission": {"type": "gone"}}, "type", ""),
        ({"submission": None}, "requeue", "either a submission or a requeue"),
        (
            {"submission": None, "requeue": {"queue": "gone"}},
            "requeue.queue",
            "is unknown; this tenant may use default",
        ),
        (
            {"submission": None, "requeue": {"queue": "default", "type": "gone"}},
            "requeue.type",
            "is unknown; GET /v1/types lists all",
        ),
        ({"more": 1}, "more", "unknown field"),
    ],
)
def test_what_is_wrong_is_refused_by_its_field(
    api: Api, changes: dict[str, Any], field: str, says: str
) -> None:
    given = {name: value for name, value in {**NIGHTLY, **changes}.items() if value is not None}
    status, problem = api("POST", "/v1/schedules", given)
    assert 400 == status, problem
    assert says in problem["detail"]
    if field:
        assert field in [each["field"] for each in problem["errors"]]
    assert [] == api("GET", "/v1/schedules")[1]["entries"]


def test_a_name_is_taken_once(api: Api) -> None:
    assert 201 == api("POST", "/v1/schedules", NIGHTLY)[0]
    status, problem = api("POST", "/v1/schedules", NIGHTLY)
    assert (409, True) == (status, "there is a schedule nightly already" in problem["detail"])


def test_what_is_due_within_a_quarter_of_an_hour_has_its_message_at_once(
    aws: Cloud, api: Api
) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    api("POST", "/v1/schedules", {**SOON, "start": "2020-01-01T00:00:00Z"})
    (nightly, poll) = (store(aws).get("acme", name) for name in ("nightly", "poll"))
    assert nightly is not None
    assert poll is not None
    now_ms = int(NOON * 1000)
    assert nightly.message_delay_ms(now_ms) is None
    assert unix_ms("2026-03-28T00:58:45Z") == nightly.wake_at_ms(now_ms)
    assert 300_000 == poll.message_delay_ms(now_ms)


def test_what_is_saved_is_checked_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, check = list[str](), Starts.check

    def counted(starts: Starts, schedule: Schedule, template: Template) -> None:
        checked.append(schedule.name)
        check(starts, schedule, template)

    monkeypatch.setattr(Starts, "check", counted)
    assert 201 == api("POST", "/v1/schedules", NIGHTLY)[0]
    assert 200 == api("PATCH", "/v1/schedules/nightly", {"overlap": "allow"})[0]
    assert ["nightly"] * 2 == checked


def test_an_edit_changes_what_is_named_and_keeps_the_rest(api: Api) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    tag = api.raw("GET", "/v1/schedules/nightly")["headers"]["ETag"]
    status, after = api(
        "PATCH", "/v1/schedules/nightly", {"cron": "0 3 * * *"}, headers={"if-match": tag}
    )
    assert (200, "0 3 * * *", "Europe/Berlin", 2) == (
        status,
        after["cron"],
        after["zone"],
        after["version"],
    )
    assert "2026-03-28T03:00:00+01:00" == after["next"]["local"]
    status, _ = api(
        "PATCH", "/v1/schedules/nightly", {"overlap": "queue"}, headers={"if-match": tag}
    )
    assert 412 == status
    _, after = api("PATCH", "/v1/schedules/nightly", {"every_s": 3600, "zone": None})
    assert (None, 3600, "UTC") == (after["cron"], after["every_s"], after["zone"])
    _, after = api("PATCH", "/v1/schedules/nightly", {"submission": {"command": ["b"]}})
    assert ("b", {"command": ["b"]}) == (after["what"], after["submission"])
    assert 400 == api("PATCH", "/v1/schedules/nightly", {"reason": "none"})[0]
    assert 400 == api("PATCH", "/v1/schedules/nightly", {"every_s": None})[0]
    assert 404 == api("PATCH", "/v1/schedules/other", {"every_s": 60})[0]


def test_an_edit_keeps_what_another_one_changes_meanwhile(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    read = ScheduleStore.template

    def read_and_lose(self: ScheduleStore, tenant: str, name: str) -> Template | None:
        found = read(self, tenant, name)
        monkeypatch.setattr(ScheduleStore, "template", read)
        api("PATCH", "/v1/schedules/nightly", {"submission": {"command": ["new"]}})
        return found

    monkeypatch.setattr(ScheduleStore, "template", read_and_lose)
    _, after = api("PATCH", "/v1/schedules/nightly", {"cron": "0 3 * * *"})
    assert ("new", {"command": ["new"]}) == (after["what"], after["submission"])
    assert after == api("GET", "/v1/schedules/nightly")[1]


def test_a_schedule_is_paused_and_resumed(api: Api, clock: Clock) -> None:
    api("POST", "/v1/schedules", SOON)
    status, paused = api("POST", "/v1/schedules/poll/pause", {"reason": "holiday"})
    assert (200, True, None) == (status, paused["paused"], paused["next"])
    assert paused["why"].endswith(": paused by machine ci: holiday")
    clock.now += 3601
    _, resumed = api("POST", "/v1/schedules/poll/resume")
    assert (False, None, 12) == (resumed["paused"], resumed["why"], resumed["last"]["times"])
    assert "paused" == resumed["last"]["outcome"]
    assert rfc3339(int(NOON + 3900) * 1000) == resumed["next"]["due_at"]


def test_a_schedule_is_deleted(api: Api) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    assert 204 == api.raw("DELETE", "/v1/schedules/nightly")["statusCode"]
    assert 404 == api("GET", "/v1/schedules/nightly")[0]
    assert 404 == api.raw("DELETE", "/v1/schedules/nightly")["statusCode"]
    assert 201 == api("POST", "/v1/schedules", NIGHTLY)[0]


def test_run_starts_a_job_now_and_leaves_the_next_time(aws: Cloud, api: Api) -> None:
    _, before = api("POST", "/v1/schedules", NIGHTLY)
    status, result = api("POST", "/v1/schedules/nightly/run", {"reason": "try it"})
    assert (202, "started", "run") == (status, result["outcome"], result["cause"])
    job = aws.job(result["job_id"])
    assert ("nightly", int(NOON * 1000)) == (job.schedule, job.scheduled_ms)
    _, shown = api("GET", f"/v1/jobs/{job.job_id}")
    assert ("nightly", rfc3339(int(NOON * 1000))) == (shown["schedule"], shown["scheduled_at"])
    _, after = api("GET", "/v1/schedules/nightly")
    assert before["next"] == after["next"]
    assert [result] == after["results"]


def test_backfill_starts_what_is_missing_one_after_the_other(aws: Cloud, api: Api) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    times = {"from": "2026-03-20T00:00:00Z", "to": "2026-03-22T12:00:00Z"}
    status, done = api("POST", "/v1/schedules/nightly/backfill", times)
    assert (202, 3, 0, 0) == (status, done["started"], done["already"], done["left"])
    heads = [aws.job(each) for each in done["jobs"]]
    assert ["pending", "waiting", "waiting"] == [head.state for head in heads]
    assert unix_ms("2026-03-20T01:00:00Z") == heads[0].scheduled_ms
    _, again = api("POST", "/v1/schedules/nightly/backfill", times)
    assert (0, 3, "0 started, 3 had started before") == (
        again["started"],
        again["already"],
        again["text"],
    )
    _, results = api("GET", "/v1/schedules/nightly/results")
    assert ["backfill", "backfill"] == [each["cause"] for each in results["entries"]]
    assert 3 == results["entries"][0]["times"]


@pytest.mark.parametrize(
    ("times", "field"),
    [
        (("2026-03-20T00:00:00Z", "2026-04-20T00:00:00Z"), "to"),
        (("2026-03-20T00:00:00Z", "2026-03-19T00:00:00Z"), "from"),
        (("2020-03-20T00:00:00Z", "2026-03-19T00:00:00Z"), "to"),
    ],
)
def test_times_of_a_backfill_are_past_and_few(api: Api, times: tuple[str, str], field: str) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    given = dict(zip(("from", "to"), times, strict=True))
    status, problem = api("POST", "/v1/schedules/nightly/backfill", given)
    assert (400, [field]) == (status, [each["field"] for each in problem["errors"]])


def test_a_preview_saves_nothing(api: Api) -> None:
    status, shown = api(
        "POST",
        "/v1/schedules/preview",
        {"cron": "*/20 2 * * *", "zone": "Europe/Berlin", "count": 4},
    )
    assert (200, 4) == (status, len(shown["next_times"]))
    assert "2026-03-30T02:00:00+02:00" == shown["next_times"][3]["local"]
    assert 2 == len(shown["warnings"])
    assert [] == api("GET", "/v1/schedules")[1]["entries"]


def test_a_type_that_has_gone_is_said_before_it_is_due(aws: Cloud, api: Api) -> None:
    store_type(aws, params_schema={"type": "object"}, items=None)
    typed = {**NIGHTLY, "submission": {"type": "sync-tickets", "params": {}}}
    assert 201 == api("POST", "/v1/schedules", typed)[0]
    from functions.admin import handler as admin

    operate = Api(admin.build(configure(admin.Settings), aws.clients, Clock(NOON)))
    assert 204 == operate.raw("DELETE", "/v1/types/sync-tickets")["statusCode"]
    # A function knows a type for some seconds; this is another one.
    api = Api(submission.build(configure(submission.Settings), aws.clients, Clock(NOON)))
    _, shown = api("GET", "/v1/schedules/nightly")
    assert shown["why"].startswith("what it starts would be refused: ")
    assert "type is unknown" in shown["why"]


@pytest.mark.parametrize(
    ("cron", "says"), [("0 2 * * *", "before that"), ("@yearly", "it is due later")]
)
def test_files_that_expire_are_said(aws: Cloud, api: Api, cron: str, says: str) -> None:
    sha256 = hashlib.sha256(b"words").hexdigest()
    aws.clients.make("s3").put_object(
        Bucket=DESCRIPTOR.bucket, Key=f"files/acme/{sha256}", Body=b"words"
    )
    files = {"command": ["wc"], "inputs": [{"path": "words", "sha256": sha256}]}
    status, made = api("POST", "/v1/schedules", {"name": "a", "cron": cron, "submission": files})
    assert 201 == status, made
    assert says in made["warnings"][-1]


def test_a_requeue_needs_the_role_operator(aws: Cloud, api: Api, clock: Clock) -> None:
    requeue = {"name": "sundays", "cron": "0 4 * * 0", "requeue": {"queue": "default"}}
    claims = {"scope": ALL.replace("joblane/admin.mutate", "")}
    built = submission.build(configure(submission.Settings), aws.clients, clock)
    developer = Api(built, claims=claims)
    status, problem = developer("POST", "/v1/schedules", requeue)
    assert (403, "a schedule that requeues needs the role operator") == (status, problem["detail"])
    unknown = {**requeue, "requeue": {"queue": "default", "type": "gone"}}
    status, problem = api("POST", "/v1/schedules", unknown)
    assert (400, "requeue.type") == (status, problem["errors"][0]["field"])
    _, job = api("POST", "/v1/jobs", {"command": ["true"]})
    assert 201 == api("POST", "/v1/schedules", requeue)[0]
    status, done = api("POST", "/v1/schedules/sundays/run")
    assert (202, None) == (status, done["job_id"])
    assert done["text"].endswith("; 1 message sent again")
    moving = {
        "name": "slow",
        "cron": "0 4 * * 0",
        "requeue": {"queue": "default", "priority": "low"},
    }
    assert 201 == api("POST", "/v1/schedules", moving)[0]
    _, done = api("POST", "/v1/schedules/slow/run")
    assert "1 job moved to the lane low" in done["text"]
    assert "low" == aws.job(job["id"]).lane


def test_another_tenants_schedules_are_unknown(aws: Cloud, api: Api, clock: Clock) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    built = submission.build(configure(submission.Settings), aws.clients, clock)
    other = Api(built, "client-other")
    assert [] == other("GET", "/v1/schedules")[1]["entries"]
    for method, path in (
        ("GET", "/v1/schedules/nightly"),
        ("POST", "/v1/schedules/nightly/run"),
        ("POST", "/v1/schedules/nightly/pause"),
        ("GET", "/v1/schedules/nightly/results"),
    ):
        assert 404 == other(method, path)[0], path


def test_results_come_in_pages_also_while_they_move(aws: Cloud, api: Api, clock: Clock) -> None:
    api("POST", "/v1/schedules", NIGHTLY)
    for _ in range(30):
        assert 202 == api("POST", "/v1/schedules/nightly/run")[0]
        clock.now += 1
    found: list[str] = []
    following: str | None = ""
    while following is not None:
        query = {"limit": "7", **({"next": following} if following else {})}
        _, page = api("GET", "/v1/schedules/nightly/results", query=query)
        found += [each["due_at"] for each in page["entries"]]
        following = page["next"]
        api("POST", "/v1/schedules/nightly/run")  # newer ones change nothing
        clock.now += 1
    assert [rfc3339(int(NOON + second) * 1000) for second in range(29, -1, -1)] == found
