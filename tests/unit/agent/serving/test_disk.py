"""The disk is reserved before the claim, beside what other jobs here may still write."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.hiding import TOO_LARGE
from ec2_agent.serving.disk import AGAIN_S, GOES_S, LOOK_S, PLENTY_MB, Disk
from ec2_agent.serving.gates import FIRST_HOLD_S
from ec2_agent.serving.slots import Memory, Slots
from joblane.aws.queue.lanes import Received
from joblane.formats.ids import nth_id
from joblane.job.disk import OUTPUT_MB
from joblane.job.head import make_head
from joblane.state.lease import HostDisk
from tests.support.desk_world import THREADS, World, job_of, soon
from tests.support.file_system import TOTAL_MB, FileSystem, free
from tests.support.jobs import JOB, named, submission


def delivery(number: int, disk_mb: int = OUTPUT_MB, work_mb: int = 0) -> Delivery:
    """A message of a job."""
    asked = {"disk_mb": disk_mb, "work_mb": work_mb}
    message = named(nth_id(JOB, number)).model_copy(update=asked)
    received = Received(message.encode(), f"receipt-{number}", 1, 0)
    return Delivery("default", "lane", "dlq", received, 0.0)


# What is reserved, and until when.


def test_what_was_written_for_a_start_is_reserved_no_longer_once_the_job_runs():
    system = FileSystem()
    disk, one = Disk(system.account()), delivery(1, 400, 200)
    disk.take(one)
    assert [(600, 1000)] == free(disk)
    system.used_mb = 350  # its files, and its work directory
    system.now += LOOK_S
    assert [(250, 650)] == free(disk), "what is written counts twice until it has started"
    disk.note_started(one)
    assert [(600, 1000)] == free(disk), "its output is to come; its end frees all"
    system.used_mb += 30
    system.now += LOOK_S
    assert [(570, 1000)] == free(disk)
    disk.release(one)
    system.used_mb = system.cached_mb = 100  # its files stay in the cache
    assert [(1000, 1000)] == free(disk)


def test_a_job_that_did_not_start_frees_all_that_was_reserved():
    disk, one = Disk(FileSystem().account()), delivery(1, 400, 200)
    disk.take(one)
    disk.release(one)
    assert [(1000, 1000)] == free(disk)
    assert 0 == disk.outputs_mb


def test_a_work_directory_with_a_disk_of_its_own_is_reserved_there():
    small, large = FileSystem(total_mb=300), FileSystem(total_mb=9000)
    work = large.account("disk for work directories")
    disk = Disk(small.account(), work, lambda size_mb: size_mb + 10)
    one = delivery(1, 2150, 2000)
    found = [(r.place, r.asked_mb) for r in disk.rooms(one.received, reserved=False)]
    assert [("disk", 150), ("disk for work directories", 2010)] == found
    disk.take(one)
    assert [(150, 300), (6990, 9000)] == free(disk)
    small.used_mb, large.used_mb = 100, 2010
    disk.note_started(one)
    assert [(150, 300), (6990, 9000)] == free(disk)
    assert (HostDisk(150, 300), HostDisk(6990, 9000)) == disk.describe()


def test_on_a_host_that_can_make_no_disks_the_claim_tells_so():
    disk = Disk(FileSystem().account(), None, lambda _: 0)
    (room,) = disk.rooms(delivery(1, 9000, 8900).received, reserved=False)
    assert 100 == room.asked_mb


def test_standard_input_stays_reserved_while_its_job_runs():
    """The cache may give the file up, and it is on the disk until the job ends."""
    disk, one = Disk(FileSystem().account()), delivery(1, 300)
    slots = Slots(Memory(None), asyncio.Event(), disk)
    slots.take(one)

    def started(**fields: Any) -> int:
        head = make_head(JOB, "acme", submission(**fields), 0)
        slots.note_started(replace(head, files_mb=250), one)
        return free(disk)[0][0]

    assert TOTAL_MB - OUTPUT_MB == started()
    assert TOTAL_MB - 300 == started(stdin_file="0" * 64)


@pytest.mark.parametrize(("kind", "cached_mb"), [("files_mb", 250), ("bundle_mb", 0)])
def test_what_a_cache_has_of_a_running_job_is_not_freed_by_its_end(kind: str, cached_mb: int):
    """It counts already: a job that waits for it would wait in vain. A bundle is in use."""
    system = FileSystem()
    disk, one = Disk(system.account()), delivery(1, 550, 250)
    slots = Slots(Memory(None), asyncio.Event(), disk)
    slots.take(one)
    system.used_mb = 300 + 500  # of others, and of the job
    system.cached_mb = cached_mb
    head = make_head(JOB, "acme", submission(), 0)
    has: dict[str, Any] = {kind: 250}
    slots.note_started(replace(head, **has), one)
    (now_mb, most_mb), *_ = free(disk)
    assert 200 + cached_mb - OUTPUT_MB == now_mb
    assert 700 + OUTPUT_MB == most_mb, "as if its output were there"


def test_more_jobs_come_only_while_their_output_fits():
    system = FileSystem(total_mb=3 * OUTPUT_MB)
    disk = Disk(system.account())
    assert 3 == disk.jobs
    disk.take(delivery(1))
    disk.take(delivery(2, 2 * OUTPUT_MB))
    assert 0 == disk.jobs
    assert Disk().jobs > 1e6
    assert () == Disk().rooms(delivery(1).received, reserved=False)


def test_the_disk_is_looked_at_seldom_and_after_each_change():
    system = FileSystem(total_mb=PLENTY_MB + 1000)
    disk, one = Disk(system.account()), delivery(1)
    for _ in range(5):
        assert disk.jobs > THREADS
        disk.rooms(one.received, reserved=False)
    assert 1 == system.looks
    disk.take(one)
    assert disk.jobs > THREADS
    assert 1 == system.looks, "what is to come was counted"
    disk.note_started(one)
    assert disk.jobs > THREADS
    disk.release(one)
    assert disk.jobs > THREADS
    assert 3 == system.looks
    system.now += LOOK_S
    assert disk.jobs > THREADS
    assert (4, 0) == (system.looks, system.thorough)


def test_what_caches_have_is_looked_at_only_where_it_decides():
    system = FileSystem(used_mb=600, cached_mb=500)
    disk = Disk(system.account())
    small, large = delivery(1, 400), delivery(2, 900)
    (room,) = disk.rooms(small.received, reserved=False)
    assert (400, 0) == (room.free_mb, system.thorough)
    for _ in range(5):
        (room,) = disk.rooms(large.received, reserved=False)
        assert 900 == room.free_mb
    assert 1 == system.thorough
    system.now += LOOK_S
    assert 900 // OUTPUT_MB == disk.jobs, "that is not plenty"
    assert (HostDisk(900, 900), None) == disk.describe()
    assert 2 == system.thorough


def test_a_file_system_that_cannot_be_read_has_nothing_free():
    system = FileSystem()
    disk = Disk(system.account())
    free(disk)
    system.broken, system.now = True, LOOK_S
    assert [(0, 0)] == free(disk)
    (room,) = disk.rooms(delivery(1).received, reserved=False)
    assert TOTAL_MB == room.total_mb, "so a targeted job waits"


# The desk.


@pytest.fixture(name="system")
def _system(world: World) -> FileSystem:
    """The disk of the world's agent."""
    system = FileSystem()
    world.agent = world.start(disk=Disk(system.account()))
    return system


def test_small_jobs_do_not_keep_a_large_one_waiting(world: World, system: FileSystem):
    """Its disk is reserved: what becomes free is not given to jobs that come later."""

    async def story() -> None:
        agent = world.agent
        first = world.send_by_lane(files_mb=600)
        large = world.send_by_lane(resources={"disk_mb": 800})
        agent.lane(first)
        assert agent.lane(large)
        assert {"default": 0, "bulk": 0} == agent.core.offers.wanted()
        agent.lane(world.send_by_lane())  # from a poll that was open
        await agent.freed()
        assert [job_of(first)] == agent.started
        assert 1 == world.in_lane[0]
        agent.end(first)
        await agent.freed()
        assert [job_of(first), job_of(large)] == agent.started
        await agent.finish()

    world.run(story())
    assert 2 == world.meter.calls["dynamodb.UpdateItem"]  # claims, and no note
    assert [(TOTAL_MB, TOTAL_MB)] == free(world.agent.core.slots.disk)


def test_a_job_that_waits_for_disk_says_so_for_one_write(world: World, system: FileSystem):
    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane(files_mb=600))
        await soon()
        world.meter.reset()
        large = world.send_by_lane(resources={"disk_mb": 800})
        for receives in (1, 2):
            agent.lane(replace(large, receives=receives))
            await asyncio.sleep(FIRST_HOLD_S * 2 ** (receives - 1) + 0.01)
            assert 0 == len(agent.desk.room)
            large = world.receive()
        said = "waits for 850 MB of disk; agent agent-1 has 350 of 1000 MB of disk free for jobs"
        assert said == world.reason(large)
        assert 1 == world.meter.write_units
        await agent.finish()

    world.run(story())


def test_what_goes_after_a_jobs_end_is_waited_for_and_noticed(world: World, system: FileSystem):
    """The work directory of an ended job is removed later; nobody says when."""

    async def story() -> None:
        agent = world.agent
        running = world.send_by_lane(resources={"disk_mb": 800})
        agent.lane(running)
        await soon()
        agent.core.slots.note_started(world.head(running), world.delivery(running))
        system.used_mb = 800
        large = world.send_by_lane(resources={"disk_mb": 300})
        agent.lane(large)
        agent.end(running)
        await agent.freed()
        assert [job_of(running)] == agent.started
        system.used_mb = 0
        await asyncio.sleep(AGAIN_S + 0.01)
        assert [job_of(running), job_of(large)] == agent.started
        await agent.finish()

    world.run(story())
    assert 2 == world.meter.calls["dynamodb.UpdateItem"]  # it was not given back with a reason


def test_what_does_not_go_after_a_jobs_end_is_waited_for_no_longer(
    world: World, system: FileSystem
):
    async def story() -> None:
        agent = world.agent
        running = world.send_by_lane(resources={"disk_mb": 800})
        agent.lane(running)
        await soon()
        agent.core.slots.note_started(world.head(running), world.delivery(running))
        system.used_mb = 800  # and stays
        large = world.send_by_lane(resources={"disk_mb": 300})
        agent.lane(large)
        agent.end(running)
        await agent.freed()
        await asyncio.sleep(GOES_S + AGAIN_S)
        assert "agent-1 gives at most 200 MB" in world.reason(large)
        assert {"default": THREADS, "bulk": THREADS} == agent.core.offers.wanted()
        await agent.finish()

    world.run(story())


def test_a_job_that_no_end_of_others_makes_room_for_is_left_to_other_agents(
    world: World, system: FileSystem
):
    """Held, it would keep all others from this agent, and then wait for nothing."""
    system.used_mb = 500  # not by jobs

    async def story() -> None:
        agent = world.agent
        large = world.send_by_lane(resources={"disk_mb": 600})
        agent.lane(large)
        agent.lane(world.send_by_lane())
        await soon()
        assert 1 == len(agent.started)
        said = "waits for 650 MB of disk; agent agent-1 gives at most 500 MB"
        assert said == world.reason(large)
        await asyncio.sleep(TOO_LARGE.first_s)
        assert 1 == world.in_lane[0]
        await agent.finish()

    world.run(story())


def test_room_on_a_disk_of_work_directories_is_noticed(world: World):
    own, apart = FileSystem(), FileSystem()
    world.agent = world.start(disk=Disk(own.account(), apart.account("disk for work directories")))

    async def story() -> None:
        agent = world.agent
        first, second = (world.send(resources={"disk_mb": 600}) for _ in "ab")
        agent.job(first)
        await soon()
        agent.job(second)
        await soon()
        assert [job_of(first)] == agent.started
        agent.core.slots.note_started(world.head(first), world.delivery(first))
        apart.used_mb = 600
        agent.end(first)
        await agent.freed()
        assert [job_of(first)] == agent.started
        apart.used_mb = 0
        await asyncio.sleep(AGAIN_S + 0.01)
        assert [job_of(first), job_of(second)] == agent.started
        await agent.finish()

    world.run(story())


def test_a_targeted_job_waits_for_disk_and_keeps_it(world: World, system: FileSystem):
    system.used_mb = 500

    async def story() -> None:
        agent = world.agent
        large = world.send(resources={"disk_mb": 600})
        agent.job(large)
        agent.lane(world.send_by_lane())
        await asyncio.sleep(100 * FIRST_HOLD_S)
        assert "waits for 650 MB of disk" in world.reason(large)
        assert not agent.started
        system.used_mb = 300
        await asyncio.sleep(AGAIN_S + 0.01)
        assert [job_of(large)] == agent.started
        await agent.finish()

    world.run(story())


def test_a_targeted_job_that_its_agents_disk_can_never_hold_fails(world: World, system: FileSystem):
    large = world.send(resources={"disk_mb": TOTAL_MB})

    async def story() -> None:
        world.agent.job(large)
        await world.agent.finish()

    world.run(story())
    head = world.head(large)
    assert "failed" == head.state
    assert "asks for 1050 MB of disk; agent agent-1 has 1000" in head.reason


def test_an_agent_whose_disk_is_full_takes_no_jobs_until_it_is_not(
    world: World, system: FileSystem
):
    system.used_mb = TOTAL_MB - OUTPUT_MB + 1

    async def story() -> None:
        agent = world.agent
        assert {"default": 0, "bulk": 0} == agent.core.offers.wanted()
        assert 0 == agent.core.offers.left
        agent.lane(world.send_by_lane())
        await soon()
        system.used_mb -= 1
        await asyncio.sleep(AGAIN_S)
        assert THREADS > agent.core.offers.wanted()["default"] == 1
        await agent.finish()

    world.run(story())


def test_caches_make_room_for_output_before_a_job_is_claimed(world: World, system: FileSystem):
    system.used_mb = system.cached_mb = TOTAL_MB - OUTPUT_MB

    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane())
        await soon()
        assert 0 == system.rooms_made
        agent.lane(world.send_by_lane())
        await soon()
        assert 1 == system.rooms_made
        assert 2 == len(agent.started)
        await agent.finish()

    world.run(story())


def test_a_cordon_frees_what_a_message_has_reserved(world: World, system: FileSystem):
    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane(files_mb=600))
        agent.lane(world.send_by_lane(resources={"disk_mb": 800}))
        assert free(agent.core.slots.disk)[0][0] < 0
        agent.command("cordon")
        agent.desk.serve()
        await soon()
        assert TOTAL_MB - 650 == free(agent.core.slots.disk)[0][0]
        await agent.finish()

    world.run(story())


def test_heartbeats_say_what_the_disk_has(world: World, system: FileSystem):
    async def story() -> None:
        agent = world.agent
        agent.lane(world.send_by_lane(files_mb=600))
        await soon()
        await agent.core.lease.announce()
        await agent.finish()

    world.run(story())
    row = world.aws.agents.get("agent-1")
    assert row is not None
    assert (HostDisk(350, 1000), None) == (row.disk, row.work_disk)
