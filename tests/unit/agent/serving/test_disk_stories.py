"""Whatever jobs come, in whatever order: none is claimed that the disk has no room for."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ec2_agent.sandbox.disk.space import MIB, Available
from ec2_agent.serving.disk import GOES_S, LOOK_S, Disk
from joblane.aws.queue.lanes import Received
from joblane.job.disk import OUTPUT_MB
from tests.support.desk_world import World, job_of, soon
from tests.support.file_system import TOTAL_MB, FileSystem, free


@dataclass
class JobFiles:
    """What a job that was claimed has on the disk, in MiB."""

    received: Received
    files_mb: int
    work_mb: int
    typed: bool
    """Whether its files are a bundle, which is in use until it ends; else a cache keeps them."""
    there_mb: int = 0
    """How much of files and work directory is written."""
    output_mb: int = 0
    started: bool = False

    @property
    def for_start_mb(self) -> int:
        """What is written before its start."""
        return self.files_mb + self.work_mb

    @property
    def needed_mb(self) -> int:
        """What cannot be removed while it is here."""
        if not self.started:
            return self.there_mb
        return self.work_mb + self.output_mb + (self.files_mb if self.typed else 0)

    @property
    def to_come_mb(self) -> int:
        """What it may still write."""
        return self.for_start_mb - self.there_mb + OUTPUT_MB - self.output_mb


class Host(FileSystem):
    """A file system that is used by jobs, as real ones use it."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, JobFiles] = {}
        self.left_over_mb = 0
        """Files of ended jobs in caches."""

    def look(self, thorough: bool) -> Available:
        """See DiskAccount: a cache counts the files that it has, whoever is being given them."""
        jobs = self.jobs.values()
        files = sum(min(job.there_mb, job.files_mb) for job in jobs if not job.typed)
        used = sum(job.needed_mb for job in jobs) + self.left_over_mb
        used += sum(job.files_mb for job in jobs if job.started and not job.typed)
        left = TOTAL_MB - used
        found = self.left_over_mb if thorough else 0
        return Available((left + files + found) * MIB, left * MIB, TOTAL_MB * MIB)

    def check(self) -> None:
        """Whatever jobs that were claimed may still write has room, if caches give up the rest."""
        jobs = self.jobs.values()
        needed, to_come = (
            sum(getattr(j, name) for j in jobs) for name in ("needed_mb", "to_come_mb")
        )
        assert needed + to_come <= TOTAL_MB

    def go_on(self, job: JobFiles) -> str:
        """Let a job do what it does next; says what is over."""
        if job.there_mb < job.for_start_mb:
            job.there_mb = min(job.for_start_mb, job.there_mb + max(1, job.for_start_mb // 2))
        elif not job.started:
            job.started = True
            return "start"
        elif job.output_mb < OUTPUT_MB:
            job.output_mb += OUTPUT_MB // 2
        else:
            self.left_over_mb = min(self.left_over_mb + job.files_mb, TOTAL_MB)
            return "end"
        return ""


class Story:
    """Jobs that come and go on it."""

    def __init__(self, directory: Path) -> None:
        self.host = Host()
        self.world = World(directory)
        disk = Disk(self.host.account())
        self.world.agent = self.world.start(memory_mb=100_000, disk=disk, threads=8)
        self.sent: dict[str, JobFiles] = {}

    def see_started(self) -> None:
        """Note the jobs that were claimed since."""
        for job_id in self.world.agent.started[len(self.host.jobs) + self.ended :]:
            self.host.jobs[job_id] = self.sent[job_id]
        self.host.check()

    ended = 0

    async def send(self, files_mb: int, work_mb: int, *, typed: bool) -> None:
        """A message comes; nothing starts before what has its disk reserved."""
        desk, before = self.world.agent.desk, len(self.world.agent.started)
        waits = [waiting for waiting in desk.room.in_order() if waiting.reserved]
        resources = {"disk_mb": work_mb} if work_mb else {}
        received = self.world.send_by_lane(files_mb=files_mb, resources=resources)
        self.sent[job_of(received)] = JobFiles(received, files_mb, work_mb, typed)
        self.world.agent.lane(received)
        await soon()
        late = job_of(received) in self.world.agent.started[before:]
        assert not (late and any(waiting in desk.room for waiting in waits))
        self.see_started()

    async def go_on(self, which: int) -> None:
        """A job does what it does next."""
        if not self.host.jobs:
            return
        job_id = sorted(self.host.jobs)[which % len(self.host.jobs)]
        job, agent = self.host.jobs[job_id], self.world.agent
        match self.host.go_on(job):
            case "start":
                head = self.world.head(job.received)
                agent.core.slots.note_started(head, self.world.delivery(job.received))
            case "end":
                del self.host.jobs[job_id]
                self.ended += 1
                agent.end(job.received)
        self.host.now += LOOK_S / 10
        await agent.freed()
        self.see_started()

    async def finish(self) -> None:
        """All that can run here runs at last."""
        able = {
            job_id for job_id, job in self.sent.items() if job.for_start_mb <= TOTAL_MB - OUTPUT_MB
        }
        for _ in range(1 + len(able)):
            while self.host.jobs:
                await self.go_on(0)
            await asyncio.sleep(GOES_S)
            waiting = {job_of(w.delivery.received) for w in self.world.agent.desk.room.in_order()}
            for job_id in able - waiting - {*self.world.agent.started}:
                self.world.agent.lane(self.sent[job_id].received)  # it was given back
                await soon()
                self.see_started()
        assert able == {*self.world.agent.started}
        assert [(TOTAL_MB, TOTAL_MB)] == free(self.world.agent.core.slots.disk)


STEPS = st.one_of(
    st.tuples(st.integers(0, 600), st.sampled_from((0, 0, 1, 300, 900, 1000)), st.booleans()),
    st.integers(0, 7),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=30))
def test_no_job_is_claimed_that_the_disk_has_no_room_for(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
):
    story = Story(tmp_path_factory.mktemp("agent"))

    async def play() -> None:
        for step in steps:
            if isinstance(step, int):
                await story.go_on(step)
            else:
                await story.send(step[0], step[1], typed=step[2])
        await story.finish()

    story.world.run(play())
