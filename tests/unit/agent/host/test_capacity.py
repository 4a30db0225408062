"""What an agent needs of its host to take a job, and what it does without."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.calls import NoThread, in_thread
from ec2_agent.host import capacity
from ec2_agent.host.capacity import (
    A_RUNNING_JOB,
    A_START,
    LOOK_S,
    PAUSES_S,
    PLENTY,
    RESERVED,
    HostCapacity,
    JobCounts,
)
from ec2_agent.sandbox.disk.space import LOW_BYTES, LOW_FILES
from ec2_agent.sandbox.launcher import Launcher
from joblane.aws.clients import LazyClients, NoClient
from joblane.state.lifecycle import State
from tests.support.attempts import begin, lengths
from tests.support.aws import Cloud
from tests.support.jobs import JOB
from tests.support.scarcity import disk, fill, only


class Host:
    """An agent's room, and what it is told of."""

    def __init__(self, directory: Path) -> None:
        self.journal, self.jobs, self.now = 1000, JobCounts(0, 0), 100.0
        self.changed = asyncio.Event()
        self.capacity = HostCapacity(
            directory,
            10,
            lambda: self.journal,
            lambda: self.jobs,
            lambda: self.now,
            self.changed.set,
        )


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_threads_and_the_journal_bound_what_is_taken(host: Host):
    assert 10 == host.capacity.left
    host.jobs = JobCounts(4, 4)
    assert 6 == host.capacity.left
    host.journal = 5
    assert (1, None) == (host.capacity.left, host.capacity.why)
    host.journal = 4
    assert (0, "the journal is full") == (host.capacity.left, host.capacity.why)
    host.jobs = JobCounts(10, 10)  # every slot is taken: nothing is amiss
    assert (0, None) == (host.capacity.left, host.capacity.why)


def test_descriptors_are_counted_for_starts_under_way_too(host: Host):
    with only(RESERVED + 3 * A_START):
        assert 3 == host.capacity.left
        host.jobs = JobCounts(2, 0)
        assert 1 == host.capacity.left
        host.jobs = JobCounts(3, 0)
        assert 0 == host.capacity.left
        assert "descriptors are left of" in (host.capacity.why or "")
    assert host.capacity.why is None


@given(
    most=st.integers(0, 20 * A_START),
    moves=st.lists(st.sampled_from(["take", "start", "take", "start", "end", "wait"]), max_size=80),
)
def test_no_start_lacks_a_descriptor_however_old_the_last_look_is(most: int, moves: list[str]):
    """Each job takes all that it may: A_START at its start, A_RUNNING_JOB beside its end's."""
    with pytest.MonkeyPatch.context() as patch:
        host = Host(Path("/"))
        opened = taken = started = 0
        patch.setattr(capacity, "descriptors_left", lambda: most - opened)
        for move in moves:
            host.now += LOOK_S / 5 if move == "wait" else 0
            host.jobs = JobCounts(taken, started)
            if move == "take" and host.capacity.left > 0:
                taken += 1
            elif move == "start" and started < taken:
                started += 1
                opened += A_START + A_RUNNING_JOB
            elif move == "end" and started:
                started, taken = started - 1, taken - 1
                opened -= A_START + A_RUNNING_JOB
            assert opened <= most


def test_descriptors_are_looked_at_four_times_a_second_where_many_are_left(
    host: Host, monkeypatch: pytest.MonkeyPatch
):
    looks = []
    plenty = RESERVED + 10 * (A_START + A_RUNNING_JOB)
    left = plenty

    def look() -> int:
        looks.append(host.now)
        return left

    monkeypatch.setattr(capacity, "descriptors_left", look)
    for _ in range(100):
        assert 10 == host.capacity.left
        host.now += LOOK_S / 10
    assert 10 == len(looks)
    left = plenty - 1
    host.now += LOOK_S
    looks.clear()
    assert 10 == host.capacity.left
    assert len(looks) > 1  # every question is a look


@pytest.mark.parametrize(
    ("megabytes", "files", "looks"),
    [
        (PLENTY * 64, PLENTY * LOW_FILES, 10),
        (PLENTY * 64, None, 10),  # btrfs counts no inodes
        (PLENTY * 64 - 1, PLENTY * LOW_FILES, 100),
        (PLENTY * 64, PLENTY * LOW_FILES - 1, 100),
    ],
)
def test_the_disk_is_looked_at_four_times_a_second_where_it_has_much_room(
    host: Host, monkeypatch: pytest.MonkeyPatch, megabytes: int, files: int | None, looks: int
):
    real, asked = os.statvfs(host.capacity.directory), []
    fields = list(real)
    fields[1], fields[4] = 1 << 20, megabytes  # f_frsize, f_bavail
    fields[5], fields[7] = (0, 0) if files is None else (2 * files, files)  # f_files, f_favail

    def look(path: Path) -> os.statvfs_result:
        asked.append(path)
        return os.statvfs_result(fields)

    monkeypatch.setattr("os.statvfs", look)
    for _ in range(100):
        assert 10 == host.capacity.left
        host.now += LOOK_S / 10
    assert looks == len(asked)
    fields[4] = LOW_BYTES // (1 << 20) - 1
    host.now += LOOK_S
    assert (0, True) == (host.capacity.left, "MB left" in (host.capacity.why or ""))


def test_a_directory_that_cannot_be_looked_at_takes_nothing(tmp_path: Path):
    host = Host(tmp_path / "gone")
    assert 0 == host.capacity.left
    assert "No such file" in (host.capacity.why or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
@pytest.mark.parametrize(
    ("options", "says"), [("size=1m", "1 MB left"), ("nr_inodes=900", "room for 899 files")]
)
def test_a_small_disk_takes_nothing(tmp_path: Path, options: str, says: str):
    with disk(tmp_path / "small", options):
        host = Host(tmp_path / "small")
        assert 0 == host.capacity.left
        assert says in (host.capacity.why or "")


def test_after_a_start_that_failed_nothing_is_taken_for_longer_and_longer(host: Host):
    for pause in (*PAUSES_S, PAUSES_S[-1]):
        host.capacity.start_failed("no memory")
        host.now += pause - 0.1
        assert (0, "no memory") == (host.capacity.left, host.capacity.why)
        host.now += 0.2
        assert 10 == host.capacity.left
    host.capacity.start_succeeded()
    host.capacity.start_failed("no memory")
    host.now += PAUSES_S[0] + 0.1
    assert 10 == host.capacity.left


def test_starts_that_fail_together_count_as_one(host: Host):
    for _ in range(4):
        host.capacity.start_failed("no memory")
    host.now += PAUSES_S[0] + 0.1
    assert 10 == host.capacity.left


def test_it_notices_by_itself_when_there_is_capacity_again(host: Host):
    host.journal = 0
    assert 0 == host.capacity.left
    host.journal = 1

    async def look() -> None:
        keeping = asyncio.create_task(host.capacity.keep())
        await asyncio.wait_for(host.changed.wait(), 5)
        keeping.cancel()

    asyncio.run(look())
    assert 1 == host.capacity.left


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
@pytest.mark.parametrize("fields", [{"restartable": True}, {"restartable": False}])
def test_a_job_that_cannot_be_started_for_want_of_space_goes_back_uncounted(
    aws: Cloud, launcher: Launcher, tmp_path: Path, fields: dict[str, Any]
):
    parts, attempt = begin(aws, launcher, **fields)
    parts.jobs_dir = tmp_path / "full"
    with disk(parts.jobs_dir, "size=64k"):
        fill(parts.jobs_dir / "ballast")
        attempt = parts.attempt(attempt.head, attempt.delivery)  # the same claim
        asyncio.run(attempt.run())
        assert ["ballast"] == os.listdir(parts.jobs_dir)  # noqa: PTH208
    head = aws.job(JOB)
    assert (State.PENDING, 0) == (head.state, head.attempt)
    assert "No space left" in head.timeline[-1].reason
    assert "No space left" in (parts.capacity.why or "")
    assert (1, 0) == lengths(aws)


def test_a_call_for_which_there_is_no_thread_is_one_that_aws_did_not_answer():
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(NoThread, match="no thread"):
            asyncio.run(_call())
    finally:
        threading.stack_size(before)


async def _call() -> None:
    await in_thread(lambda: None, "x")


def test_a_client_that_cannot_be_made_now_is_made_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = LazyClients().make("secretsmanager")
    with only(0), pytest.raises(NoClient, match=r"secretsmanager.*Too many open files"):
        assert client.meta
    assert "us-east-1" == client.meta.region_name
