"""What a type checker says of programs that use the SDK: one run of mypy for all of them."""

import subprocess
import sys
from pathlib import Path

from tests.support.programs import MYPY_CACHE

PROGRAM = """
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from pydantic import BaseModel

from joblane import (
    ArrayRef,
    AsyncArrayRef,
    AsyncClient,
    Client,
    Concurrency,
    Job,
    JobRef,
    Resources,
    Retry,
    Submission,
    job_type,
)


class SyncTickets(BaseModel):
    origin: str


class Other(BaseModel):
    origin: str


class SyncResult(BaseModel):
    synced: int


@job_type("sync-tickets")
def sync_tickets(params: SyncTickets, job: Job) -> SyncResult:
    return SyncResult(synced=1)


def right(client: Client) -> None:
    ref = client.submit(sync_tickets, SyncTickets(origin="acme"), queue="slow")
    assert_type(ref, JobRef[SyncResult])
    assert_type(ref.wait(), SyncResult)
    assert_type(client.submit(["true"]).wait().exit_code, int | None)
    assert_type(client.get("01J").of(sync_tickets).wait(), SyncResult)
    assert_type(sync_tickets(SyncTickets(origin="a"), Job()), SyncResult)
    client.submit(("sh", "-c", "true"), requires=["app:tickets"])
    client.submit("sync", {"origin": "acme"}, retry={"backoff_s": [timedelta(minutes=1), 5]})
    assert_type(client.submit("sync", {"origin": "acme"}).replaced, str | None)
    assert_type(client.queues().entries[0].lanes[0].lane, str)
    assert_type(client.why("01J").reasons[0].text, str)
    assert_type([entry.job for entry in client.submit_batch([])], list[JobRef | None])
    assert_type(client.submit(["true"]).wait(60, check=True).cancel().labels, dict[str, str])
    assert_type([key.name for key in client.list_conditions()], list[str])
    limits: Resources = {"cpus": 0.5, "memory_mb": 64, "disk_mb": 100}
    retry: Retry = {"max_attempts": 1}
    key: Concurrency = {"key": ["acme", 1], "when_full": "coalesce"}
    client.submit(["true"], resources=limits, retry=retry, concurrency=key)
    now = datetime.now(UTC)
    client.submit(["true"], run_at=now, deadline="2026-11-21T02:00:00Z", timeout_s=timedelta(1))
    client.submit_batch([{"command": ["true"]}, {"type": "sync", "params": {}}])
    client.edit("01J", queue="slow", labels={"a": None}, deadline=None, resources={"cpus": None})
    assert_type(ref.edit(timeout_s=timedelta(1), reason="it is long"), JobRef[Any])
    for job in client.list(labels={"team": "web"}, since=now - timedelta(days=1)):
        assert_type(job.wait(timedelta(hours=1)).exit_code, int | None)


def many(client: Client) -> None:
    for page in client.map(["./page", "{}"], range(3), timeout_s=5):
        assert_type(page.value, int)
        assert_type(page.result().exit_code, int | None)
    for made in client.map(lambda name: {"command": [name]}, ["a"], as_completed=True):
        assert_type(made.value, str)
    for synced in client.map(sync_tickets, [SyncTickets(origin="acme")]):
        assert_type(synced.result(), SyncResult)


def arrays(client: Client) -> None:
    ref = client.submit(sync_tickets, array={"values": [SyncTickets(origin="a")]}, tolerate="5 %")
    assert_type(ref, ArrayRef[SyncResult])
    assert_type([each.result() for each in ref.results()], list[SyncResult])
    assert_type(client.submit(sync_tickets, SyncTickets(origin="a"), array={"size": 2}).id, str)
    assert_type(client.submit(["./work"], array={"first": 1, "last": 9}), ArrayRef[Any])
    client.submit("sync", array={"values": [{"origin": "acme"}]}, max_concurrency=2)
    job: JobRef = client.submit(["./work"], array={"size": 1})
    assert_type(job.wait().exit_code, int | None)


def schedules(client: Client) -> None:
    params = SyncTickets(origin="a")
    made = client.schedules.add("a", sync_tickets, params, every_s=timedelta(minutes=5))
    made = client.schedules.add("a", ["true"], cron="@daily", name="of the job", queue="slow")
    assert_type([each.local for each in made.next_times], list[str])
    assert_type([each.job_id for each in client.schedules.results("a")], list[str | None])
    client.schedules.edit("a", end=None, overlap="queue", submission={"command": ["true"]})


async def also_right(client: AsyncClient) -> None:
    many = await client.submit(sync_tickets, array={"values": [SyncTickets(origin="acme")]})
    assert_type(many, AsyncArrayRef[SyncResult])
    async for each in many.results():
        assert_type(each.result(), SyncResult)
    ref = await client.submit(sync_tickets, SyncTickets(origin="acme"))
    assert_type(await ref.wait(), SyncResult)
    assert_type((await (await client.submit(["true"])).wait()).exit_code, int | None)
    async for page in client.map(("./page", "{}"), ["a"]):
        assert_type(page.value, str)
    assert_type((await client.schedules.run("a")).outcome, str)
    async for schedule in client.schedules.list():
        assert_type(schedule.next.local if schedule.next else None, str | None)
    async for agent in client.list_agents():
        print(agent.name)


def wrong(client: Client, words: Sequence[str]) -> None:
    client.submit(sync_tickets, Other(origin="acme"))  # refused
    client.submit(sync_tickets, {"origin": "acme"})  # refused
    client.submit(sync_tickets)  # refused
    client.submit(sync_tickets, SyncTickets(origin="acme"), queu="slow")  # refused
    client.submit(sync_tickets, SyncTickets(origin="acme")).wait().sinced  # refused
    client.submit("echo hi")  # refused
    client.submit(words)  # refused
    client.submit(["echo", 1])  # refused
    client.submit(["true"], params={})  # refused
    client.submit(["true"], array={"sise": 3})  # refused
    client.submit(sync_tickets, Other(origin="acme"), array={"size": 3})  # refused
    client.submit(["true"], retry={"max_attemps": 3})  # refused
    client.submit(["true"], resources={"memory": 3})  # refused
    client.submit(["true"], concurrency={"max_active": 3})  # refused
    client.submit(["true"], run_at=timedelta(minutes=1))  # refused
    client.submit(["true"], priority="urgent")  # refused
    client.submit("sync")  # refused
    client.submit_batch([{"comand": ["true"]}])  # refused
    client.queues().entrys  # refused
    client.schedules.add("a", ["true"], crom="@daily")  # refused
    client.schedules.add("a", "true", cron="@daily", overlap="never")  # refused
    client.schedules.edit("a", submission={"comand": ["true"]})  # refused
    client.map("echo {}", [1])  # refused
    client.map(["echo", "{}"], [1], timeout="5m")  # refused
    client.map(sync_tickets, ["acme"])  # refused
    client.list(labels=["team"])  # refused
    client.list(label="a=b", sinze="")  # refused
    again: Submission = {"command": "echo hi"}  # refused


async def also_wrong(client: AsyncClient) -> None:
    await client.submit("echo hi")  # refused
    await client.submit(["true"], retry={"max_attemps": 3})  # refused


@job_type("bad")  # refused
def bad(params: dict[str, str], job: Job) -> None: ...
"""


def test_mypy_refuses_what_cannot_be(tmp_path: Path):
    """Strictly, as a user's program is checked: every marked line is an error, and no other."""
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--config-file=", "--cache-dir", str(MYPY_CACHE), "program.py"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ran.stdout.splitlines() if ": error:" in line]
    marked = enumerate(PROGRAM.splitlines(), 1)
    expected = [number for number, line in marked if line.endswith("# refused")]
    assert expected == sorted({int(line.split(":")[1]) for line in lines}), ran.stdout + ran.stderr
