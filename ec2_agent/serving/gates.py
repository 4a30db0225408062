"""Who is served: an ordered tuple of gates, each a function of values. Pure.

A message passes from gate to gate until one has a verdict on it; one that passes them all starts.
What waits comes before the gates again whenever a slot, memory or disk becomes free, a limit
changes, or the agent is cordoned:

    free 3000 MB    message of 512 MB     starts                       free 2488 MB
    free 700 MB     message of 2048 MB    held, its memory reserved    free -1348 MB
                    a slot counts as free only while a default job's memory is
                    a job of 1500 MB ends                              free 152 MB: starts

    disk for 300 MB      message of 2000 MB   held, its disk reserved, as its memory is

    acme runs 2 of 2     message of acme     held: it starts when one of the two ends
    acme runs 2 of 2     more of acme        given back to the lane, hidden for a while
    acme has a share 0   message of acme     given back: another agent has the share

    slots full           message of a lane   given back, or held for a moment (`prefetch`)
    slots full           from the inbox      held: no other agent may run its job

Because memory and disk are reserved, smaller jobs that come later cannot delay a large one for
ever. What other agents may run is held for a limited time only. One that is given back is hidden
for longer each time (`ec2_agent.messages.hiding`).
"""

from collections.abc import Callable, Container
from dataclasses import dataclass

from ec2_agent.messages.hiding import INBOX_FULL, LACKING, TENANT_FULL, TOO_LARGE
from ec2_agent.serving.disk import DiskRoom
from ec2_agent.serving.verdict import (
    RESERVING,
    Drop,
    Fail,
    GiveBack,
    Hold,
    Start,
    Verdict,
    Wait,
)
from joblane.queue.tenant_shares import Allowance, paused_tenant

MOST_TARGETED = 200
"""Targeted jobs of one tenant and queue that wait here; SQS keeps more of them, hidden for a
while."""

MOST_OF_TENANT = 10
"""Messages of one tenant at its share that wait here: as many as one request of SQS brings."""

TENANT_HOLD_S = 20.0
"""How long one of them waits before other agents may have it."""

PREFETCH_HOLD_S = 0.25
"""How long a message waits that was received before a slot was free: more than twice what it was
received for (`prefetch.AHEAD_S`)."""

FIRST_HOLD_S, LONGEST_HOLD_S = 30.0, 4 * 3600.0
"""How long a message waits for memory or disk the first time, and at most."""

NOTE_AT = 6
"""A message of a tenant at its share that is received for the sixth time has waited for about
`reasons.NOTE_AFTER_S`: the one agent that receives it then says so."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that came or waits, as the gates see it."""

    queue: str
    tenant: str
    """Empty if Joblane did not write the message: it goes on to the dead letters."""
    memory_mb: int
    receives: int
    targeted: bool
    """Whether it came from the agent's inbox: no other agent may run its job."""
    hold: Hold | None = None
    """How it waits; None: it has just come."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What this agent has for one candidate; what is reserved for it counts as free."""

    agent: str
    closed: str
    """Why it takes none now; empty if it does."""
    queues: Container[str]
    """Those that it serves."""
    lacks: bool
    """Whether its host lacks what the job needs, now or for good, as its last claim showed."""
    free: int
    """Slots that are free; 0 or less: none."""
    short: str
    """What the host is short of for any job; empty: nothing."""
    taken: int
    """Jobs of the queue that run here."""
    most: int
    """Jobs of the queue that may run here."""
    running: int
    """Jobs of all queues that run here."""
    threads: int
    most_mb: int
    """The most memory that one job may have, in MiB."""
    free_mb: int
    total_mb: int
    rooms: tuple[DiskRoom, ...]
    """What its file systems have for the job; none: no disk is limited."""
    tenant_running: int
    tenant: Allowance
    """What the job's tenant may run here."""
    tenant_held: int
    """Messages of the tenant that wait here because of that."""
    targeted_held: int
    """Targeted jobs of the tenant and the queue that wait here."""
    prefetch: int
    """Messages of the queue that may wait here for a slot although other agents may have them."""


Gate = Callable[[Candidate, Offer], Verdict | None]


def serves(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Drop what no queue of this agent has."""
    return None if candidate.queue in offer.queues else Drop()


def crowd(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Leave a targeted job in the inbox if its tenant has very many of its queue waiting here."""
    new = candidate.targeted and candidate.hold is None
    if new and offer.targeted_held >= MOST_TARGETED:
        return GiveBack(Wait.SLOT, INBOX_FULL.after(candidate.receives))
    return None


def standing(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Take nothing while the agent is cordoned, drains, or can start no job."""
    if not offer.closed:
        return None
    if candidate.targeted:
        return Hold(Wait.STANDING, f"waits for a slot: agent {offer.agent} {offer.closed}")
    return GiveBack(Wait.STANDING)


def lacking(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Leave a job that this host cannot run to other agents."""
    if candidate.targeted or not offer.lacks:
        return None
    return GiveBack(Wait.LIMIT, LACKING.after(candidate.receives))


def too_large(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Leave a job that asks for more memory than any may have here; fail it if targeted."""
    asked, agent, most = candidate.memory_mb, offer.agent, offer.most_mb
    if asked <= most:
        return None
    if candidate.targeted:
        return Fail(f"asks for {asked} MB of memory; agent {agent} gives at most {most}")
    why = f"waits for {asked} MB of memory; agent {agent} gives a job at most {most} MB"
    return GiveBack(Wait.LIMIT, TOO_LARGE.after(candidate.receives), why)


def too_large_for_disk(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Leave a job that asks for more disk than this host will have to others.

    It does not wait for what is free only without the host's other files: those of jobs go. A
    targeted job, which no other agent may run, waits for that too, and fails if the file system is
    too small. An agent that has no slot because its disk is full says nothing about the job: the
    host's other files may go soon.
    """
    for room in offer.rooms:
        asked, most = room.asked_mb, max(0, room.most_mb)
        if candidate.targeted:
            if asked > room.total_mb:
                return Fail(
                    f"asks for {asked} MB of {room.place}; agent {offer.agent} has {room.total_mb}"
                )
        elif asked > most:
            why = f"waits for {asked} MB of {room.place}; agent {offer.agent} gives at most {most}"
            return GiveBack(Wait.LIMIT, TOO_LARGE.after(candidate.receives), f"{why} MB")
    return None


def tenant_share(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Run no more jobs of a tenant than its share of `jobs_running` on this agent."""
    share = offer.tenant.share
    if not candidate.tenant or offer.tenant_running < share:
        return None
    why = (
        paused_tenant(candidate.tenant)
        if offer.tenant.limit == 0
        else (
            f"waits for jobs of tenant {candidate.tenant} to end, of which {offer.tenant.limit} "
            f"may run at once (jobs_running); agent {offer.agent} runs {offer.tenant_running} "
            f"of its share of {share}"
        )
    )
    if candidate.targeted:
        return Hold(Wait.TENANT, why)
    held = candidate.hold is not None and candidate.hold.wait is Wait.TENANT
    if held or offer.tenant_held < min(share, MOST_OF_TENANT):
        return Hold(Wait.TENANT, why, TENANT_HOLD_S)
    receives = candidate.receives
    seconds = TENANT_FULL.after(receives)
    return GiveBack(Wait.TENANT, seconds, why if receives == NOTE_AT else "")


def slot(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Wait for a slot; a message of a lane does so for a moment, if one is about to be free."""
    if offer.free > 0:
        return None
    if candidate.targeted:
        return Hold(Wait.SLOT, f"waits for a slot: {_obstacle(candidate, offer)}")
    hold = candidate.hold
    if hold is not None and hold.wait not in RESERVING:
        return hold
    if offer.prefetch > 0:
        return Hold(Wait.SLOT, "waits for a slot", PREFETCH_HOLD_S)
    return GiveBack(Wait.SLOT)


def _obstacle(candidate: Candidate, offer: Offer) -> str:
    """Why no job of a queue starts here now."""
    agent = f"agent {offer.agent}"
    if offer.most <= 0:
        return f"{agent} has no share of queue {candidate.queue} now, or it is paused"
    if offer.taken >= offer.most:
        return f"{agent} runs {offer.taken} of {offer.most} jobs of queue {candidate.queue}"
    if offer.short:
        return f"{agent}: {offer.short}"
    if offer.running < offer.threads:
        rooms = [room for room in offer.rooms if room.free_mb < room.asked_mb]
        if rooms and offer.free_mb >= candidate.memory_mb:
            return _room(offer, rooms[0])
        return f"{agent} has {max(0, offer.free_mb)} of {offer.total_mb} MB of memory free"
    return f"{agent} runs {offer.running} of {offer.threads} jobs"


def memory(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Wait until the memory that its job asks for is free."""
    asked, free = candidate.memory_mb, offer.free_mb
    if asked <= free:
        return None
    seconds = None if candidate.targeted else hold_s(candidate.receives)
    has = f"agent {offer.agent} has {free} of {offer.total_mb} MB free"
    return Hold(Wait.MEMORY, f"waits for {asked} MB of memory; {has}", seconds)


def disk(candidate: Candidate, offer: Offer) -> Verdict | None:
    """Wait until the disk has room for what its job puts on it."""
    for room in offer.rooms:
        if room.asked_mb > room.free_mb:
            seconds = None if candidate.targeted else hold_s(candidate.receives)
            why = f"waits for {room.asked_mb} MB of {room.place}; {_room(offer, room)}"
            return Hold(Wait.DISK, why, seconds)
    return None


def _room(offer: Offer, room: DiskRoom) -> str:
    """What a file system of this agent has."""
    free, most = max(0, room.free_mb), max(0, room.most_mb)
    return f"agent {offer.agent} has {free} of {most} MB of {room.place} free for jobs"


def hold_s(receives: int) -> float:
    """Give how long a message waits for memory or disk that was delivered so often."""
    return min(FIRST_HOLD_S * 2.0 ** min(receives - 1, 16), LONGEST_HOLD_S)


GATES: tuple[Gate, ...] = (
    serves,
    crowd,
    standing,
    lacking,
    too_large,
    tenant_share,
    slot,
    too_large_for_disk,
    memory,
    disk,
)
"""In this order. A job that can never run here is not held; one whose tenant runs its share takes
no slot; one that has no slot reserves no memory and no disk."""


def judge(candidate: Candidate, offer: Offer) -> Verdict:
    """Decide over a message."""
    for gate in GATES:
        verdict = gate(candidate, offer)
        if verdict is not None:
            return verdict
    return Start()
