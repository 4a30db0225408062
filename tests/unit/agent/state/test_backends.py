"""One contract for every backend of the state service, and what each of them owes beside it."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ec2_agent.state.backend import Backend
from ec2_agent.state.dynamodb import DynamoBackend
from ec2_agent.state.local import LocalBackend
from ec2_agent.state.memory import MemoryBackend
from ec2_agent.state.protocol import StateRefused
from ec2_agent.state.records import MARK_S, StateRecord, StateWrite, Verb, WriteResult, prepare
from ec2_agent.state.rounds import Rounds
from joblane.aws.fleet.records import AgentRecords
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.depth import budget

NOW = 1_795_000_000.0
KINDS = ("memory", "local", "dynamodb")


@pytest.fixture(name="backend", params=KINDS)
def _backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    backend: Backend
    if request.param == "memory":
        backend = MemoryBackend()
    elif request.param == "local":
        backend = LocalBackend(tmp_path / "state.db", sync_interval=0)
    else:
        backend = DynamoBackend(records_of(request.getfixturevalue("aws")))
    yield backend
    backend.close()


def records_of(aws: Cloud, agent: str = "agent-1") -> AgentRecords:
    client = aws.clients.make("dynamodb")
    return AgentRecords(client, DESCRIPTOR.agents_table, agent, sleep=lambda _: None)


def record(id_: str = "a", version: int = 1, body: str | None = "one") -> StateRecord:
    return StateRecord("outcome", id_, version, body)


def write(
    backend: Backend, verb: Verb, *records: StateRecord, now: float = NOW
) -> list[WriteResult]:
    return backend.write([prepare(verb, each, now) for each in records], now)


def bodies(backend: Backend, *ids: str, now: float = NOW) -> list[str | None]:
    return [found.body for found in backend.get("outcome", ids, now)]


def test_what_is_created_is_read_back_whole(backend: Backend):
    full = StateRecord("outcome", "ü-1", 3, '{"a": "ß"}', int(NOW) + 9)
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, full)
    assert [full] == backend.get("outcome", ["nothing", "ü-1"], NOW)
    assert [] == backend.get("other", ["ü-1"], NOW)


def test_a_creation_is_done_once_and_its_repetition_is_answered_alike(backend: Backend):
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record())
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record())
    for version in (0, 1, 2):
        other = record(version=version, body="another")
        assert [WriteResult.EXISTS] == write(backend, Verb.CREATE, other)
    assert ["one"] == bodies(backend, "a")
    write(backend, Verb.UPDATE, record(version=2, body="two"))
    assert [WriteResult.EXISTS] == write(backend, Verb.CREATE, record())


def test_an_update_needs_a_record_and_a_newer_version(backend: Backend):
    assert [WriteResult.ABSENT] == write(backend, Verb.UPDATE, record())
    write(backend, Verb.CREATE, record())
    assert [WriteResult.DONE] == write(backend, Verb.UPDATE, record(version=3, body="three"))
    assert [WriteResult.STALE] == write(backend, Verb.UPDATE, record(version=2, body="two"))
    assert [WriteResult.DONE] == write(backend, Verb.UPDATE, record(version=3, body="three"))
    assert ["three"] == bodies(backend, "a")


def test_a_late_write_does_not_bring_back_what_was_deleted(backend: Backend):
    write(backend, Verb.CREATE, record())
    assert [WriteResult.DONE] == write(backend, Verb.DELETE, record(version=2))
    assert [] == bodies(backend, "a")
    assert [WriteResult.STALE] == write(backend, Verb.CREATE, record())
    assert [WriteResult.ABSENT] == write(backend, Verb.UPDATE, record(version=3))
    assert [] == bodies(backend, "a")
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record(version=3, body="anew"))
    assert ["anew"] == bodies(backend, "a")


def test_deleting_twice_or_what_was_never_there_is_fine_and_an_old_deletion_is_not(
    backend: Backend,
):
    assert [WriteResult.DONE] == write(backend, Verb.DELETE, record("b", version=4))
    assert [WriteResult.DONE] == write(backend, Verb.DELETE, record("b", version=4))
    assert [WriteResult.STALE] == write(backend, Verb.CREATE, record("b", version=4))
    write(backend, Verb.CREATE, record(version=5))
    assert [WriteResult.STALE] == write(backend, Verb.DELETE, record(version=4))
    assert ["one"] == bodies(backend, "a")


def test_sync_makes_it_so_whatever_is_there(backend: Backend):
    write(backend, Verb.CREATE, record("old", version=1), record("newer", version=7))
    assert [WriteResult.DONE, WriteResult.DONE, WriteResult.STALE, WriteResult.DONE] == write(
        backend,
        Verb.SYNC,
        record("new", body="new"),
        record("old", version=2, body="two"),
        record("newer", version=6, body="six"),
        record("gone", version=2, body=None),
    )
    assert ["new", "two", "one"] == bodies(backend, "new", "old", "newer", "gone")


def test_writes_of_one_record_in_one_batch_are_done_in_order(backend: Backend):
    writes = [
        prepare(Verb.CREATE, record(), NOW),
        prepare(Verb.UPDATE, record(version=2, body="two"), NOW),
        prepare(Verb.DELETE, record(version=3), NOW),
        prepare(Verb.CREATE, record(version=4, body="four"), NOW),
    ]
    assert [WriteResult.DONE] * 4 == backend.write(writes, NOW)
    assert ["four"] == bodies(backend, "a")


def test_what_has_expired_is_not_seen_and_may_be_written_anew(backend: Backend):
    ending = StateRecord("outcome", "a", 9, "one", int(NOW) + 10)
    write(backend, Verb.CREATE, ending)
    assert ["one"] == bodies(backend, "a", now=NOW + 9)
    assert [] == bodies(backend, "a", now=NOW + 10)
    assert ([], None) == backend.list("outcome", None, 25, NOW + 10)
    assert [WriteResult.ABSENT] == write(backend, Verb.UPDATE, record(version=10), now=NOW + 10)
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record(version=1), now=NOW + 10)


def test_the_mark_of_a_deletion_ends(backend: Backend):
    write(backend, Verb.DELETE, record(version=2))
    backend.tidy(NOW + MARK_S - 1)
    assert [WriteResult.STALE] == write(backend, Verb.CREATE, record(), now=NOW + MARK_S - 1)
    backend.tidy(NOW + MARK_S)
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record(), now=NOW + MARK_S)


def test_a_list_is_read_in_pages_in_order_and_holds_one_kind(backend: Backend):
    ids = [f"{n:03d}" for n in range(60)]
    for start in range(0, 60, 25):
        write(backend, Verb.CREATE, *(record(id_) for id_ in reversed(ids[start : start + 25])))
    write(backend, Verb.DELETE, record("031", version=2))
    write(
        backend,
        Verb.CREATE,
        StateRecord("outcomf", "x", 1, "x"),
        StateRecord("outcom", "x", 1, "x"),
    )
    seen: list[str] = []
    after, pages = None, 0
    while True:
        page, after = backend.list("outcome", after, 25, NOW)
        seen += [found.id for found in page]
        pages += 1
        if after is None:
            break
    assert [id_ for id_ in ids if id_ != "031"] == seen
    assert pages <= 4


def test_a_healthy_backend_says_nothing(backend: Backend):
    write(backend, Verb.CREATE, record())
    backend.check()
    backend.sync()


WRITES = st.lists(
    st.builds(
        lambda verb, id_, version, body: prepare(
            verb,
            StateRecord("k", id_, version, body if verb is not Verb.SYNC or version % 2 else None),
            NOW,
        ),
        st.sampled_from(Verb),
        st.sampled_from("ab"),
        st.integers(1, 5),
        st.sampled_from(["x", "y"]),
    ),
    max_size=12,
)


@given(writes=WRITES)
@settings(max_examples=budget(8, 25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_backend_does_the_same(writes: list[StateWrite], aws: Cloud, tmp_path_factory: Any):
    """Whatever comes, in whatever order: the table's conditions are the rule in `records`."""
    local = LocalBackend(tmp_path_factory.mktemp("state") / "state.db", sync_interval=1)
    memory = MemoryBackend()
    table = DynamoBackend(records_of(aws, agent=f"agent-{time.monotonic_ns()}"))
    expected = memory.write(writes, NOW)
    assert expected == local.write(writes, NOW)
    assert expected == table.write(writes, NOW)
    assert memory.list("k", None, 25, NOW) == local.list("k", None, 25, NOW)
    assert memory.list("k", None, 25, NOW) == table.list("k", None, 25, NOW)
    local.close()


def numbered(record: StateRecord, version: int) -> StateRecord:
    return StateRecord(record.kind, record.id, version, record.body, record.expires_at)


@given(writes=WRITES, data=st.data())
def test_a_write_that_was_done_changes_nothing_when_it_comes_again(
    writes: list[StateWrite], data: st.DataObject
):
    """A writer counts its versions up; what the network delays or repeats is one of them."""
    backend = MemoryBackend()
    done = []
    for n, each in enumerate(writes, 1):
        write = StateWrite(each.verb, numbered(each.record, n))
        if backend.write([write], NOW) == [WriteResult.DONE]:
            done.append(write)
        before = backend.list("k", None, 25, NOW)
        if done:
            backend.write(data.draw(st.lists(st.sampled_from(done), max_size=3)), NOW)
        assert before == backend.list("k", None, 25, NOW)


# local


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path):
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database, but somebody's" * 100)
    with pytest.raises(StateRefused, match="is damaged") as caught:
        LocalBackend(path, sync_interval=0)
    assert "unusable" == caught.value.code
    assert path.read_bytes().startswith(b"not a database")


def database(tmp_path: Path) -> Path:
    """Commits of one record each, some of them in the file itself and some in its log."""
    path = tmp_path / "whole" / "state.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as small:
        small.execute("PRAGMA page_size = 512")
        small.execute("VACUUM")
    small.close()
    backend = LocalBackend(path, sync_interval=0)
    db: sqlite3.Connection = backend._db  # to decide when the log is taken in
    for n in range(8):
        if n == 4:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert [WriteResult.DONE] == write(backend, Verb.CREATE, record(f"{n}", body=f"{n}" * 50))
    kept = tmp_path / "kept"
    shutil.copytree(path.parent, kept)  # as after a kill: the log is not taken in
    backend.close()
    return kept / "state.db"


def read_back(path: Path) -> list[str]:
    """Open a file as a service that starts does, and read what is in it."""
    backend = LocalBackend(path, sync_interval=1)
    try:
        page, _ = backend.list("outcome", None, 25, NOW)
        assert all(record.body == record.id * 50 for record in page)
        return [record.id for record in page]
    finally:
        backend.close()


def cut_copy(path: Path, name: str, size: int, where: Path) -> Path:
    """Copy the files, one of them cut short; the shared memory is gone as after a power cut."""
    where.mkdir(exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        (where / f"state.db{suffix}").unlink(missing_ok=True)
    for suffix in ("", "-wal"):
        whole = path.with_name(f"state.db{suffix}").read_bytes()
        kept = whole[:size] if name == f"state.db{suffix}" else whole
        (where / f"state.db{suffix}").write_bytes(kept)
    return where / "state.db"


def test_a_log_of_the_database_that_was_cut_gives_the_commits_that_are_whole(tmp_path: Path):
    path = database(tmp_path)
    everything = [str(n) for n in range(8)]
    size = path.with_name("state.db-wal").stat().st_size
    before = 4
    for at in (*range(0, size, 17), size):
        found = read_back(cut_copy(path, "state.db-wal", at, tmp_path / "cut"))
        assert found == everything[: len(found)]
        assert before <= len(found) <= before + 1
        before = len(found)
    assert before == len(everything)


def test_a_database_that_was_cut_is_refused_or_gives_nothing_but_what_was_written(tmp_path: Path):
    path = database(tmp_path)
    path.with_name("state.db-wal").write_bytes(b"")
    said: set[str] = set()
    for at in range(0, path.stat().st_size, 7):
        try:
            assert read_back(cut_copy(path, "state.db", at, tmp_path / "cut")) in ([], list("0123"))
        except StateRefused as error:
            said.add(error.code)
    assert {"unusable"} == said


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path):
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(StateRefused, match="newer version of Joblane"):
        LocalBackend(path, sync_interval=0)


def test_a_full_database_stores_nothing_of_the_batch_says_so_and_recovers(tmp_path: Path):
    backend = LocalBackend(tmp_path / "state.db", sync_interval=0)
    write(backend, Verb.CREATE, record())
    db: sqlite3.Connection = backend._db  # the only way to a full file of any size
    db.execute("PRAGMA max_page_count = 6")
    with pytest.raises(StateRefused, match="is full") as caught:
        write(backend, Verb.CREATE, record("small"), record("big", body="x" * 100_000))
    assert ("storage_full", False) == (caught.value.code, caught.value.passing)
    assert [] == bodies(backend, "small", "big")
    assert ["one"] == bodies(backend, "a")
    db.execute("PRAGMA max_page_count = 1000000")
    backend.check()
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record("big", body="x" * 100_000))
    backend.close()


def test_a_disk_that_is_nearly_full_is_trouble_before_it_is_full(tmp_path: Path):
    backend = LocalBackend(tmp_path / "state.db", sync_interval=0, low_bytes=2**62)
    with pytest.raises(StateRefused, match="MB of free space") as caught:
        backend.check()
    assert "storage_full" == caught.value.code
    health = Rounds(backend, 0).health()  # an agent does not even start
    assert health is not None
    assert "storage_full" == health[0]
    backend.close()


# dynamodb


def failing(aws: Cloud, code: str, times: int) -> DynamoBackend:
    """A backend whose first puts are answered with an error of DynamoDB."""
    left = [times]

    def hook(**_: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise ClientError({"Error": {"Code": code, "Message": "made up"}}, "PutItem")

    aws.emitter().register("before-call.dynamodb.PutItem", hook)
    client = aws.clients.make("dynamodb")
    records = AgentRecords(client, DESCRIPTOR.agents_table, "agent-1", sleep=lambda _: None)
    return DynamoBackend(records)


def test_what_a_throttled_table_did_not_take_is_tried_again(aws: Cloud):
    backend = failing(aws, "ThrottlingException", 30)
    many = [record(f"{n:02d}") for n in range(25)]
    assert [WriteResult.DONE] * 25 == write(backend, Verb.CREATE, *many)
    assert 25 == len(backend.list("outcome", None, 25, NOW)[0])


@pytest.mark.parametrize(
    ("code", "expected", "passing"),
    [
        ("ThrottlingException", "busy", True),
        ("InternalServerError", "busy", True),
        ("AccessDeniedException", "denied", False),
        ("ResourceNotFoundException", "unusable", False),
    ],
)
def test_what_dynamodb_refuses_has_a_code(aws: Cloud, code: str, expected: str, passing: bool):
    backend = failing(aws, code, 4)
    with pytest.raises(StateRefused) as caught:
        write(backend, Verb.CREATE, record())
    assert (expected, passing) == (caught.value.code, caught.value.passing)
    backend.check()  # looks again, and finds it well


@pytest.mark.parametrize("call", ["BatchGetItem", "Query"])
def test_a_role_that_may_write_and_not_read_is_trouble_from_the_start(aws: Cloud, call: str):
    """Not when the agent is started again and cannot find what it has stored."""

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": call}}, call)

    aws.emitter().register(f"before-call.dynamodb.{call}", refuse)
    backend = DynamoBackend(records_of(aws))
    health = Rounds(backend, 0).health()
    assert health is not None
    assert "denied" == health[0]
    assert call in health[1]
    assert [WriteResult.DONE] == write(backend, Verb.CREATE, record())


def test_a_healthy_table_is_read_once_a_minute(aws: Cloud):
    """Two reads, a unit each: 86,400 a month, $0.011 (docs/explanation/costs.md)."""
    now = 0.0
    reads: list[str] = []
    aws.emitter().register("before-call.dynamodb", lambda model, **_: reads.append(model.name))
    backend = DynamoBackend(records_of(aws), lambda: now)
    for _ in range(24):  # of 5 s each
        backend.check()
        now += 5
    assert 2 * ["BatchGetItem", "Query"] == reads


def test_a_database_that_cannot_be_read_is_trouble(tmp_path: Path):
    backend = LocalBackend(tmp_path / "state.db", sync_interval=0)
    backend.check()
    backend._db.execute("DROP TABLE records")  # as damaged as a test can make it
    with pytest.raises(StateRefused, match="records"):
        backend.check()
    backend.close()


def test_records_of_agents_are_apart_and_no_listing_of_agents_meets_them(aws: Cloud):
    for agent in ("agent-1", "agent-2"):
        backend = DynamoBackend(records_of(aws, agent))
        assert [WriteResult.DONE] == write(backend, Verb.CREATE, record(body=agent))
    assert ["agent-2"] == bodies(backend, "a")
    assert ([], None) == aws.agents.page(limit=100, after=None)


def test_the_mark_of_a_deletion_is_left_to_the_tables_ttl(aws: Cloud):
    backend = DynamoBackend(records_of(aws))
    write(backend, Verb.CREATE, record())
    write(backend, Verb.DELETE, record(version=2))
    (item,) = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.agents_table)["Items"]
    assert str(int(NOW) + MARK_S) == item["expires_at"]["N"]
    assert "body" not in item
