"""The SDK's calls of schedules: what is sent, and what is read, by both clients."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from joblane import InputError, Job, JobType, NotFoundError, RequestError, job_type
from joblane.client.schedules import ScheduleChanges
from joblane.contract.schedules import ScheduleEdit
from tests.support.client.fake_api import FakeApi, ok, problem
from tests.support.client.fake_files import FakeFiles

ALL = "/v1/schedules"
ONE = f"{ALL}/nightly"
NEXT = {"due_at": "2026-03-29T01:00:00.000Z", "local": "2026-03-29T03:00:00+02:00"}
VIEW = {"name": "nightly", "what": "make test", "next": NEXT, "next_times": [NEXT], "warnings": []}


class SyncTickets(BaseModel):
    """Params of the type."""

    origin: str


@pytest.fixture(name="sync", scope="module")
def _sync() -> JobType[Any, Any]:
    def sync(params: SyncTickets, job: Job) -> None:
        """Not run."""

    return job_type("sync-tickets")(sync)


def test_a_schedule_takes_the_arguments_of_submit(
    api: FakeApi, client: Any, files: FakeFiles, here: Path, sync: JobType[Any, Any]
):
    api.answers[ALL] = ok(VIEW, 201)
    (here / "a.txt").write_text("a")
    made = client.schedules.add(
        "nightly",
        ["make", "test"],
        cron="0 2 * * *",
        zone="Europe/Berlin",
        catch_up_s=timedelta(hours=2),
        start=datetime(2026, 3, 1, tzinfo=UTC),
        overlap=None,
        name="a night",
        timeout_s=timedelta(minutes=5),
        inputs=["a.txt"],
        reason="asked for",
    )
    assert "2026-03-29T03:00:00+02:00" == made.next.local
    body = api.requests[-1].body
    (stored,) = body["submission"].pop("inputs")
    assert ("a.txt", 1) == (stored["path"], len(files.stored))
    submission = {"command": ["make", "test"], "name": "a night", "timeout_s": 300}
    assert body == {
        "name": "nightly",
        "cron": "0 2 * * *",
        "zone": "Europe/Berlin",
        "catch_up_s": 7200,
        "start": "2026-03-01T00:00:00Z",
        "submission": submission,
        "reason": "asked for",
    }
    values = {"values": [SyncTickets(origin="a")]}
    client.schedules.add("each", sync, every_s=300, array=values, paused=True)
    client.schedules.add("again", requeue={"queue": "default"}, every_s=600)
    typed, requeue = (each.body for each in api.requests[-2:])
    array = {"values": [{"origin": "a"}]}
    assert {"type": "sync-tickets", "array": array} == typed["submission"]
    assert typed["paused"]
    assert {"name": "again", "every_s": 600, "requeue": {"queue": "default"}} == requeue


def test_an_edit_sends_what_changes(api: FakeApi, client: Any):
    api.answers[ONE] = ok(VIEW)
    client.schedules.edit(
        "nightly", end=None, every_s=timedelta(minutes=5), submission={"command": ("true",)}
    )
    client.schedules.edit("nightly", requeue={"queue": "default"}, reason="r")
    assert [
        ("PATCH", {"end": None, "every_s": 300, "submission": {"command": ["true"]}}),
        ("PATCH", {"requeue": {"queue": "default"}, "reason": "r"}),
    ] == [(each.method, each.body) for each in api.requests]
    assert {*ScheduleChanges.__annotations__, "reason"} == set(ScheduleEdit.model_fields)


def test_lists_are_read_page_by_page(api: FakeApi, client: Any):
    api.faults.extend(
        [
            ok({"entries": [{"name": "a"}, {"name": "b"}], "next": "b2s"}),
            ok({"entries": [{"name": "c"}], "next": None}),
            ok({"entries": [{"outcome": "missed", "times": 5}], "next": None}),
        ]
    )
    assert ["a", "b", "c"] == [each.name for each in client.schedules.list()]
    assert ["missed"] == [each.outcome for each in client.schedules.results("nightly")]
    assert ["100", "100", "100"] == [each.query["limit"] for each in api.requests]
    assert f"{ONE}/results" == api.requests[-1].path


def test_a_schedule_is_paused_resumed_run_previewed_and_deleted(api: FakeApi, client: Any):
    api.answers |= {f"{ONE}/{word}": ok(VIEW) for word in ("pause", "resume")}
    api.answers |= {f"{ONE}/run": ok({"job_id": "01J"}, 202), ONE: (204, {}, b"")}
    api.answers[f"{ALL}/preview"] = ok({"zone": "UTC", "next_times": [NEXT]})
    assert "nightly" == client.schedules.pause("nightly", reason="r").name
    assert "nightly" == client.schedules.resume("nightly").name
    assert "01J" == client.schedules.run("nightly").job_id
    (time,) = client.schedules.preview(cron="@daily", count=1).next_times
    assert NEXT["local"] == time.local
    client.schedules.delete("nightly", reason="r")
    assert ["POST", "POST", "POST", "POST", "DELETE"] == [each.method for each in api.requests]
    assert [{"reason": "r"}, None, None, {"cron": "@daily", "count": 1}, {"reason": "r"}] == [
        each.body for each in api.requests
    ]


def test_a_backfill_ends_when_nothing_is_left_or_nothing_moves(api: FakeApi, client: Any):
    def left(*counts: int) -> None:
        api.faults.extend(ok({"started": 1, "left": count}, 202) for count in counts)

    times = ("nightly", datetime(2026, 3, 1, tzinfo=UTC), "2026-03-03T00:00:00Z")
    left(2, 1, 0)
    assert [2, 1, 0] == [each.left for each in client.schedules.backfill(*times)]
    left(2, 2)
    assert [2, 2] == [each.left for each in client.schedules.backfill(*times)]
    left(2)
    assert [2] == [each.left for each in client.schedules.backfill(*times, check=True)]
    body = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-03T00:00:00Z"}
    assert [*[body] * 5, body | {"check": True}] == [each.body for each in api.requests]


def test_errors(api: FakeApi, client: Any):
    api.answers[ONE] = problem(404, "Not Found", detail="no schedule nightly")
    api.answers[ALL] = problem(409, "Conflict", detail="there is a schedule nightly")
    with pytest.raises(NotFoundError, match="no schedule nightly"):
        client.schedules.get("nightly")
    with pytest.raises(RequestError, match="there is a schedule nightly"):
        client.schedules.add("nightly", ["true"], every_s=300)
    with pytest.raises(InputError, match="every_s must be a number of seconds or a timedelta"):
        client.schedules.add("nightly", ["true"], every_s="5m")
    with pytest.raises(InputError, match="is not the name of a schedule"):
        client.schedules.get("a/b")
    with pytest.raises(InputError, match="the command must be a list of words"):
        client.schedules.add("nightly", every_s=300)
