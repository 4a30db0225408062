"""Who is served: what each gate decides, and in which order."""

from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.messages.hiding import INBOX_FULL, LACKING, TENANT_FULL, TOO_LARGE
from ec2_agent.serving.disk import DiskRoom
from ec2_agent.serving.gates import (
    FIRST_HOLD_S,
    GATES,
    LONGEST_HOLD_S,
    MOST_OF_TENANT,
    MOST_TARGETED,
    NOTE_AT,
    PREFETCH_HOLD_S,
    TENANT_HOLD_S,
    Candidate,
    Offer,
    hold_s,
    judge,
)
from ec2_agent.serving.verdict import Drop, Fail, GiveBack, Hold, Start, Verdict, Wait
from joblane.queue.tenant_shares import Allowance

NEW = Candidate(
    queue="default", tenant="acme", memory_mb=512, receives=1, targeted=False, hold=None
)
OFFER = Offer(
    agent="agent-1",
    closed="",
    queues=("default", "bulk"),
    lacks=False,
    free=1,
    short="",
    taken=1,
    most=4,
    running=3,
    threads=4,
    most_mb=4096,
    free_mb=1024,
    total_mb=8192,
    rooms=(),
    tenant_running=1,
    tenant=Allowance(5, 2),
    tenant_held=0,
    targeted_held=0,
    prefetch=0,
)
SHARE = (
    "waits for jobs of tenant acme to end, of which 5 may run at once (jobs_running); "
    "agent agent-1 runs 2 of its share of 2"
)
NO_SHARE = SHARE.replace("2 of its share of 2", "1 of its share of 0")
PAUSED = {"tenant": Allowance(0, 0), "tenant_running": 0}
IS_PAUSED = (
    "tenant acme is paused: joblane.toml has tenants.acme.limits.jobs_running = 0, so none of its "
    "jobs starts"
)
TOO_MUCH = "waits for 5000 MB of memory; agent agent-1 gives a job at most 4096 MB"
SHORT_OF = "waits for 2048 MB of memory; agent agent-1 has 1024 of 8192 MB free"
FULL = {"tenant_running": 2}
LARGE = {"memory_mb": 2048}
IN_SHARE = Hold(Wait.TENANT, SHARE, TENANT_HOLD_S)
AHEAD = Hold(Wait.SLOT, "waits for a slot", PREFETCH_HOLD_S)
OF_THE_INBOX = {"targeted": True}

ROOM = DiskRoom("disk", asked_mb=300, free_mb=700, most_mb=900, total_mb=1000)
WORK = DiskRoom("disk for work directories", asked_mb=60, free_mb=70, most_mb=90, total_mb=100)


def rooms(**of_disk: Any) -> dict[str, Any]:
    """What a host with two file systems has, of which one is large enough."""
    return {"rooms": (WORK, replace(ROOM, **of_disk))}


NO_DISK = "waits for 800 MB of disk; agent agent-1 has 700 of 900 MB of disk free for jobs"
NO_DISK_EVER = "waits for 950 MB of disk; agent agent-1 gives at most 900 MB"


def waits_for_a_slot(why: str) -> Hold:
    return Hold(Wait.SLOT, f"waits for a slot: agent agent-1{why}")


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Verdict]] = {
    "nothing is in its way": ({}, {}, Start()),
    "targeted, nothing is in its way": (OF_THE_INBOX, {}, Start()),
    "of a queue that is not served": ({"queue": "none"}, {"closed": "drains"}, Drop()),
    # Standing.
    "cordoned": ({}, {"closed": "is cordoned"}, GiveBack(Wait.STANDING)),
    "waited, then cordoned": ({"hold": IN_SHARE}, {"closed": "is x"}, GiveBack(Wait.STANDING)),
    "targeted, cordoned": (
        OF_THE_INBOX,
        {"closed": "is cordoned"},
        Hold(Wait.STANDING, "waits for a slot: agent agent-1 is cordoned"),
    ),
    # What the host has not got.
    "lacking": ({}, {"lacks": True}, GiveBack(Wait.LIMIT, LACKING.after(1))),
    "lacking, seen often": (
        {"receives": 9},
        {"lacks": True},
        GiveBack(Wait.LIMIT, LACKING.after(9)),
    ),
    "targeted, lacking: its claim will tell": (OF_THE_INBOX, {"lacks": True}, Start()),
    "too large": (
        {"memory_mb": 5000},
        {},
        GiveBack(Wait.LIMIT, TOO_LARGE.after(1), TOO_MUCH),
    ),
    "too large, and slots full": (
        {"memory_mb": 5000, "receives": 3},
        {"free": 0},
        GiveBack(Wait.LIMIT, TOO_LARGE.after(3), TOO_MUCH),
    ),
    "targeted, too large": (
        OF_THE_INBOX | {"memory_mb": 5000},
        {},
        Fail("asks for 5000 MB of memory; agent agent-1 gives at most 4096"),
    ),
    # Tenants.
    "tenant at its share": ({}, FULL, IN_SHARE),
    "its tenant is paused": (
        {"receives": NOTE_AT},
        PAUSED,
        GiveBack(Wait.TENANT, TENANT_FULL.after(NOTE_AT), IS_PAUSED),
    ),
    "its tenant is paused, targeted": (OF_THE_INBOX, PAUSED, Hold(Wait.TENANT, IS_PAUSED)),
    "tenant at its share, few wait": ({}, FULL | {"tenant_held": 1}, IN_SHARE),
    "tenant at its share, enough wait": (
        {},
        FULL | {"tenant_held": 2},
        GiveBack(Wait.TENANT, TENANT_FULL.after(1)),
    ),
    "tenant at its share, and waits for it": (
        {"hold": IN_SHARE},
        FULL | {"tenant_held": 2},
        IN_SHARE,
    ),
    "tenant at a large share": (
        {},
        {"tenant_running": 99, "tenant": Allowance(99, 99), "tenant_held": MOST_OF_TENANT},
        GiveBack(Wait.TENANT, TENANT_FULL.after(1)),
    ),
    "tenant without a share": (
        {},
        {"tenant": Allowance(5, 0)},
        GiveBack(Wait.TENANT, TENANT_FULL.after(1)),
    ),
    "tenant without a share, seen for a while": (
        {"receives": NOTE_AT},
        {"tenant": Allowance(5, 0)},
        GiveBack(Wait.TENANT, TENANT_FULL.after(NOTE_AT), NO_SHARE),
    ),
    "tenant without a share, seen for longer": (
        {"receives": NOTE_AT + 1},
        {"tenant": Allowance(5, 0)},
        GiveBack(Wait.TENANT, TENANT_FULL.after(NOTE_AT + 1)),
    ),
    "received ahead, then its tenant is at its share": (
        {"hold": AHEAD},
        FULL | {"tenant_held": 2},
        GiveBack(Wait.TENANT, TENANT_FULL.after(1)),
    ),
    "targeted, tenant at its share": (
        OF_THE_INBOX,
        FULL | {"tenant_held": 99},
        Hold(Wait.TENANT, SHARE),
    ),
    "not a message of Joblane": ({"tenant": ""}, {"tenant": Allowance(5, 0)}, Start()),
    # Slots.
    "no slot": ({}, {"free": 0}, GiveBack(Wait.SLOT)),
    "no slot, one is about to be free": ({}, {"free": -1, "prefetch": 1}, AHEAD),
    "received ahead, no slot yet": ({"hold": AHEAD}, {"free": 0, "prefetch": 0}, AHEAD),
    "its tenant may run more, but no slot is free": ({"hold": IN_SHARE}, {"free": 0}, IN_SHARE),
    "targeted, no slot of the agent": (
        OF_THE_INBOX,
        {"free": 0, "running": 4},
        waits_for_a_slot(" runs 4 of 4 jobs"),
    ),
    "targeted, no slot of the queue": (
        OF_THE_INBOX,
        {"free": 0, "taken": 4},
        waits_for_a_slot(" runs 4 of 4 jobs of queue default"),
    ),
    "targeted, the queue is paused": (
        OF_THE_INBOX,
        {"free": 0, "most": 0},
        waits_for_a_slot(" has no share of queue default now, or it is paused"),
    ),
    "targeted, the host is short": (
        OF_THE_INBOX,
        {"free": 0, "short": "the journal is full"},
        waits_for_a_slot(": the journal is full"),
    ),
    "targeted, another one waits for memory": (
        OF_THE_INBOX,
        {"free": 0, "free_mb": -5},
        waits_for_a_slot(" has 0 of 8192 MB of memory free"),
    ),
    "targeted, as many wait as may": (
        OF_THE_INBOX | {"receives": 2},
        {"free": 0, "targeted_held": MOST_TARGETED},
        GiveBack(Wait.SLOT, INBOX_FULL.after(2)),
    ),
    "targeted, waits among as many as may": (
        OF_THE_INBOX | {"hold": Hold(Wait.SLOT, "")},
        {"free": 0, "running": 4, "targeted_held": MOST_TARGETED},
        waits_for_a_slot(" runs 4 of 4 jobs"),
    ),
    # Memory.
    "memory for it": ({"memory_mb": 1024}, {}, Start()),
    "no memory": (LARGE, {}, Hold(Wait.MEMORY, SHORT_OF, FIRST_HOLD_S)),
    "no memory, seen before": (
        LARGE | {"receives": 2},
        {},
        Hold(Wait.MEMORY, SHORT_OF, 2 * FIRST_HOLD_S),
    ),
    "no memory and no slot: it reserves none": (LARGE, {"free": 0}, GiveBack(Wait.SLOT)),
    "targeted, no memory": (OF_THE_INBOX | LARGE, {}, Hold(Wait.MEMORY, SHORT_OF)),
    # Disk.
    "disk for it": ({}, rooms(), Start()),
    "disk for it to the last MiB": ({}, rooms(asked_mb=700), Start()),
    "no disk": ({}, rooms(asked_mb=800), Hold(Wait.DISK, NO_DISK, FIRST_HOLD_S)),
    "no disk, seen before": (
        {"receives": 2},
        rooms(asked_mb=800),
        Hold(Wait.DISK, NO_DISK, 2 * FIRST_HOLD_S),
    ),
    "no disk and no slot: it reserves none": (
        {},
        rooms(asked_mb=800) | {"free": 0},
        GiveBack(Wait.SLOT),
    ),
    "no memory and no disk": (
        LARGE,
        rooms(asked_mb=800),
        Hold(Wait.MEMORY, SHORT_OF, FIRST_HOLD_S),
    ),
    "waits for disk, and its slot is not free any more": (
        {"hold": Hold(Wait.DISK, NO_DISK, FIRST_HOLD_S)},
        rooms(asked_mb=800) | {"free": 0},
        GiveBack(Wait.SLOT),
    ),
    "no memory, and more disk than jobs can free": (
        LARGE,
        rooms(asked_mb=950),
        GiveBack(Wait.LIMIT, TOO_LARGE.after(1), NO_DISK_EVER),
    ),
    "no disk for its work directory": (
        {},
        {"rooms": (replace(WORK, asked_mb=80), ROOM)},
        Hold(
            Wait.DISK,
            "waits for 80 MB of disk for work directories; agent agent-1 has 70 of 90 MB of disk "
            "for work directories free for jobs",
            FIRST_HOLD_S,
        ),
    ),
    "disk that others have taken": (
        {},
        rooms(free_mb=-5),
        Hold(Wait.DISK, NO_DISK.replace("800", "300").replace("700", "0"), FIRST_HOLD_S),
    ),
    "more disk than jobs can free": (
        {},
        rooms(asked_mb=950),
        GiveBack(Wait.LIMIT, TOO_LARGE.after(1), NO_DISK_EVER),
    ),
    "more disk than jobs can free, and slots full": (
        {"receives": 3},
        rooms(asked_mb=950) | {"free": 0},
        GiveBack(Wait.SLOT),
    ),
    "the host's other files have taken all": (
        {},
        rooms(most_mb=-5),
        GiveBack(
            Wait.LIMIT,
            TOO_LARGE.after(1),
            NO_DISK_EVER.replace("950", "300").replace("900", "0"),
        ),
    ),
    "targeted, more disk than jobs can free": (
        OF_THE_INBOX,
        rooms(asked_mb=950),
        Hold(Wait.DISK, NO_DISK.replace("800", "950")),
    ),
    "targeted, more than the file system has": (
        OF_THE_INBOX,
        rooms(asked_mb=1001),
        Fail("asks for 1001 MB of disk; agent agent-1 has 1000"),
    ),
    "targeted, another one waits for disk": (
        OF_THE_INBOX,
        rooms(free_mb=-5) | {"free": 0},
        waits_for_a_slot(" has 0 of 900 MB of disk free for jobs"),
    ),
}


@pytest.mark.parametrize(("candidate", "offer", "expected"), CASES.values(), ids=CASES)
def test_verdicts(candidate: dict[str, Any], offer: dict[str, Any], expected: Verdict):
    assert expected == judge(replace(NEW, **candidate), replace(OFFER, **offer))


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_each_gate_decides_something_that_no_other_would(gate: Any):
    """Without it, one of the cases above has another verdict."""
    others = [other for other in GATES if other is not gate]

    def without(candidate: Candidate, offer: Offer) -> Verdict:
        verdicts = (other(candidate, offer) for other in others)
        return next((verdict for verdict in verdicts if verdict is not None), Start())

    assert any(
        without(replace(NEW, **candidate), replace(OFFER, **offer)) != expected
        for candidate, offer, expected in CASES.values()
    )


def test_a_message_waits_for_memory_longer_each_time():
    found = [hold_s(receives) for receives in range(1, 1000)]
    assert sorted(found) == found
    assert (FIRST_HOLD_S, LONGEST_HOLD_S) == (found[0], found[-1])


def test_a_message_is_given_back_for_longer_the_more_often_it_comes():
    quick = TENANT_FULL.quick
    assert [1] * quick == [TENANT_FULL.after(n) for n in range(1, quick + 1)]
    assert [1, 4, 9] == [TENANT_FULL.after(quick + n) for n in (1, 2, 3)]
    assert 300 == TENANT_FULL.after(quick + 18) == TENANT_FULL.after(10_000)
    # A minute after it was sent the last of a hundred agents may have seen it.
    assert sum(TENANT_FULL.after(n) for n in range(1, quick + 5)) == 60
