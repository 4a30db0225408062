"""Which edits `why` offers: those that let the job start, and that the API takes."""

from dataclasses import replace
from typing import Any

import pytest

from joblane.formats.times import rfc3339
from joblane.group.record import MemberOf
from joblane.queue.maxima import Maxima
from joblane.state.lease import Heartbeat, HostDisk
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.why.explain import explain, summary
from joblane.why.reason import Code
from joblane.why.situation import Situation
from tests.support.jobs import JOB
from tests.support.situations import (
    BUSY,
    CORDONED,
    FULL,
    NOW,
    OPEN,
    OTHER,
    PAUSED,
    READY,
    SILENT,
    TROUBLED,
    job,
    waits,
)

BULK = replace(READY, name="bulk-1", queues=("bulk",))
OTHERS = ("bulk",)
TO_BULK = [f"joblane edit {JOB} --queue bulk"]


def edits(situation: Situation, code: Code) -> list[str]:
    """The edits that a reason of this kind offers, which must be there."""
    (reason,) = [reason for reason in explain(situation) if reason.code == code]
    return [command for command in reason.commands if command.startswith("joblane edit")]


@pytest.mark.parametrize(
    ("agents", "code"),
    [
        ((), "no_agents"),
        ((CORDONED,), "agents_unavailable"),
        ((SILENT,), "agents_silent"),
        ((TROUBLED,), "agents_in_trouble"),
        ((replace(READY, lacks=("egress",)),), "agents_lack"),
    ],
)
def test_a_queue_without_agents_may_be_left(agents: tuple[Heartbeat, ...], code: Code) -> None:
    head = job(State.PENDING, network="egress")
    assert TO_BULK == edits(waits(*agents, BULK, head=head, others=OTHERS), code)


@pytest.mark.parametrize(
    ("bulk", "known"),
    [
        (BULK, {"others": ()}),
        (replace(BULK, mode="cordoned"), {}),
        (replace(BULK, beat_ms=NOW - 40_000), {}),
        (replace(BULK, trouble="takes no jobs: the disk is full"), {}),
        (replace(BULK, memory_mb=600), {}),
        (BULK, {"head": replace(job(State.PENDING), member_of=MemberOf(OTHER, 0))}),
    ],
)
def test_only_one_that_helps_and_is_allowed_is_named(bulk: Heartbeat, known: Any) -> None:
    head = job(State.PENDING, resources={"memory_mb": 700})
    situation = waits(bulk, **{"others": OTHERS, "head": head, **known})
    assert [] == edits(situation, "no_agents")


def test_a_queue_whose_agents_are_busy_is_not_left() -> None:
    assert [] == edits(waits(FULL, BULK, others=OTHERS), "no_free_slot")


@pytest.mark.parametrize(
    ("maxima", "resources", "options"),
    [
        (Maxima(memory_mb=512), {"memory_mb": 2048}, "--memory-mb 512"),
        (Maxima(cores=8), {"cores": "2,9"}, "--cores none"),
        (
            Maxima(memory_mb=512, cpus=0.5),
            {"memory_mb": 2048, "cpus": 4},
            "--memory-mb 512 --cpus 0.5",
        ),
    ],
)
def test_who_asks_too_much_may_ask_for_less(maxima: Maxima, resources: Any, options: str) -> None:
    head = job(State.PENDING, resources=resources)
    queue = replace(OPEN, maxima=(maxima,))
    expected = [f"joblane edit {JOB} {options}"]
    assert expected == edits(waits(READY, queue=queue, head=head), "too_large")
    both = waits(READY, BULK, queue=queue, head=head, others=OTHERS)
    assert [*expected, *TO_BULK] == edits(both, "too_large")


def test_a_typed_job_with_cores_that_no_fleet_has_is_cancelled() -> None:
    """Which ones it may have is not known, and `none` would be those that its type sets."""
    head = job(State.PENDING, type="sync-tickets", params={}, resources={"cores": "2,9"})
    queue = replace(OPEN, maxima=(Maxima(cores=8),))
    situation = waits(READY, queue=queue, head=replace(head, type_version=1))
    assert [] == edits(situation, "too_large")


def test_a_member_that_asks_too_much_is_cancelled() -> None:
    head = job(State.PENDING, resources={"memory_mb": 2048})
    queue = replace(OPEN, maxima=(Maxima(memory_mb=512),))
    situation = waits(READY, queue=queue, head=replace(head, member_of=MemberOf(OTHER, 0)))
    assert [] == edits(situation, "too_large")
    assert "cancel it, and submit it with less" in explain(situation)[0].text


@pytest.mark.parametrize(
    ("resources", "options"),
    [
        ({"memory_mb": 64_000}, ["--memory-mb 3000"]),
        ({"memory_mb": 64_000, "cores": "0-7"}, []),  # it lacks more than memory
        ({"cores": "0-7"}, []),
    ],
)
def test_agents_with_less_memory_say_how_much_they_give(resources: Any, options: list[str]) -> None:
    small = replace(READY, memory_mb=3000, cores=4)
    head = job(State.PENDING, resources=resources)
    situation = waits(replace(small, name="b", memory_mb=2000), small, head=head)
    assert [f"joblane edit {JOB} {each}" for each in options] == edits(situation, "agents_lack")


@pytest.mark.parametrize(
    ("lacks", "network", "member", "advice"),
    [
        (("disk_mb",), "none", False, "edit the job to ask for less"),
        (("disk_mb",), "none", True, "submit the job without"),  # members are not edited
        (("disk_mb", "egress"), "egress", False, "submit the job without"),  # nor is a network
    ],
)
def test_a_job_that_no_agent_can_run_is_edited_where_that_helps(
    lacks: tuple[str, ...], network: Any, member: bool, advice: str
) -> None:
    head = job(State.PENDING, resources={"disk_mb": 900_000}, network=network)
    head = replace(head, member_of=MemberOf(OTHER, 0) if member else None)
    (reason, *_) = explain(waits(replace(READY, lacks=lacks), head=head))
    assert "agents_lack" == reason.code
    assert reason.text.endswith(f"start an agent whose host has it, or {advice}")


def test_agents_without_disk_for_its_files_are_not_named_for_their_memory() -> None:
    small = replace(READY, memory_mb=3000, disk=HostDisk(400, 500))
    head = replace(job(State.PENDING, resources={"memory_mb": 64_000}), files_mb=600)
    assert [] == edits(waits(small, head=head), "agents_lack")
    named = edits(waits(small, head=replace(head, files_mb=400)), "agents_lack")
    assert [f"joblane edit {JOB} --memory-mb 3000"] == named


@pytest.mark.parametrize(("lane", "options"), [("default", ["--priority high"]), ("high", [])])
def test_a_job_behind_others_may_go_to_the_first_lane(lane: Any, options: list[str]) -> None:
    lanes = {**BUSY, "high": replace(BUSY["high"], visible=5)}
    situation = waits(READY, queue=PAUSED, lanes=lanes, head=job(State.PENDING, priority=lane))
    assert [f"joblane edit {JOB} {each}" for each in options] == edits(situation, "jobs_ahead")


@pytest.mark.parametrize("left_s", [-10, 60])
@pytest.mark.parametrize("state", [State.PENDING, State.SCHEDULED, State.RETRY])
def test_a_deadline_may_be_removed(left_s: int, state: State) -> None:
    head = job(state, deadline=rfc3339(NOW + left_s * 1000))
    assert [f"joblane edit {JOB} --deadline none"] == edits(waits(READY, head=head), "deadline")


def test_a_job_waits_since_before_its_edit() -> None:
    head = job(State.PENDING, ago_s=3600)
    line = Step(State.PENDING, NOW - 5_000, 0, "edited by ann: priority low -> default; waits")
    situation = waits(head=replace(head, timeline=(*head.timeline, line)))
    assert summary(situation, explain(situation)).startswith("pending for 1 h, since ")


def disk_edits(row: Heartbeat, code: Code = "disk_full", **changes: Any) -> list[str]:
    """The edits that are offered to a job with a work directory of 3000 MB on this agent."""
    head = replace(job(State.PENDING, resources={"disk_mb": 3000}), **changes)
    return edits(waits(row, head=head), code)


def test_a_work_directory_may_become_as_large_as_an_agent_has_room_for() -> None:
    """A tenth is left for what a file system takes of its file."""
    row = replace(READY, disk=HostDisk(1050, 9000))
    smaller = [f"joblane edit {JOB} --disk-mb 900"]
    assert smaller == disk_edits(row)
    assert smaller == disk_edits(replace(row, disk=HostDisk(1150, 9000)), files_mb=100)
    assert smaller == disk_edits(
        replace(row, disk=HostDisk(50, 60), work_disk=HostDisk(1000, 9000))
    )
    lacking = replace(row, disk=HostDisk(0, 1050))
    assert smaller == disk_edits(lacking, "agents_lack")


def test_a_work_directory_that_would_be_too_small_is_not_offered() -> None:
    row = replace(READY, disk=HostDisk(1050, 9000))
    assert [] == disk_edits(row, files_mb=501), "its input files are placed there"
    assert [] == disk_edits(replace(row, disk=HostDisk(-9, 9000)))
    assert [] == disk_edits(replace(row, disk=HostDisk(51, 9000)))
    head = replace(job(State.PENDING), files_mb=2000)
    assert [] == edits(waits(row, head=head), "disk_full"), "it has no disk of its own"
