"""Why a job in a lane does not start: its reasons, in their order."""

from dataclasses import replace
from typing import Any

import pytest

from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.lacking import describe_lack
from joblane.queue.maxima import Maxima
from joblane.queue.settings import QueueSettings
from joblane.queue.shares import share_out
from joblane.queue.tenant_shares import share_out_tenants
from joblane.state.lease import HostDisk
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.why.explain import explain
from joblane.why.reason import Code
from joblane.why.situation import (
    Agents,
    Counted,
    Messages,
    Situation,
    TenantLimit,
)
from tests.support.situations import (
    BUSY,
    CORDONED,
    EARLY,
    FULL,
    GONE,
    LACKING,
    NOW,
    OPEN,
    OTHER,
    PAUSED,
    READY,
    SILENT,
    TROUBLED,
    codes,
    first,
    job,
    waits,
)

NO_DISK = replace(READY, disk=HostDisk(200, 900))
LARGE_DISK = job(State.PENDING, resources={"disk_mb": 300})


@pytest.mark.parametrize(
    ("situation", "expected", "words"),
    [
        (waits(READY), ["about_to_start"], "agents have 4 slots free, as of"),
        (waits(READY, queue=PAUSED), ["paused"], "(60 s ago) by ann: no agent starts its jobs"),
        (waits(), ["no_agents"], "no agent that serves queue default is alive: start an agent"),
        (waits(GONE), ["no_agents"], "the last heartbeat was that of web-1, "),
        (waits(replace(GONE, beat_ms=0)), ["no_agents"], "web-1, whose instance has ended"),
        (
            waits(replace(READY, queues=("bulk",))),
            ["no_agents"],
            "is alive; 1 agent of other queues is: start",
        ),
        (
            waits(agents=Agents((GONE,), more=True)),
            ["no_agents"],
            "none of the 1 agents that were read serves queue default and is alive; there are more",
        ),
        (waits(CORDONED), ["agents_unavailable"], "1 cordoned takes nothing new"),
        (
            waits(CORDONED, replace(CORDONED, name="b", mode="draining")),
            ["agents_unavailable"],
            "of the 2 live agents of queue default 1 cordoned and 1 draining take nothing new",
        ),
        (waits(SILENT), ["agents_silent"], "sent no heartbeat for 30 s or longer, web-1 since "),
        (waits(TROUBLED), ["agents_in_trouble"], "web-1 says: takes no jobs: the disk is full"),
        (
            waits(TROUBLED, replace(FULL, name="b")),
            ["no_free_slot", "agents_in_trouble"],
            "all 4 slots of 1 agent are taken",
        ),
        (
            waits(READY, head=job(State.PENDING, ago_s=30), lanes={"default": Messages(0, 1, 0)}),
            ["about_to_start"],
            "an agent has received its message; if that agent has ended, the message comes back",
        ),
        (waits(TROUBLED, READY), ["about_to_start", "agents_in_trouble"], "4 slots free"),
        (
            waits(LACKING, head=job(State.PENDING, resources={"disk_mb": 9}, network="egress")),
            ["agents_lack"],
            "give it what it asks for; web-1 lacks disk_mb and egress: start an agent whose host",
        ),
        (
            waits(
                replace(LACKING, trouble="takes no jobs: the disk is full"),
                replace(LACKING, name="b", mode="cordoned"),
                head=job(State.PENDING, resources={"memory_mb": 9}),
            ),
            ["agents_lack"],
            "no live agent of queue default can give it what it asks for",
        ),
        (
            waits(
                replace(READY, memory_mb=3000, cores=4),
                head=job(State.PENDING, resources={"memory_mb": 64_000, "cores": "0-7"}),
            ),
            ["agents_lack"],
            "web-1 lacks 64000 MB of memory and core 7: start an agent",
        ),
        (
            waits(replace(READY, memory_mb=512, cores=4), head=job(State.PENDING)),
            ["about_to_start"],
            "4 slots free",
        ),
        (
            waits(TROUBLED, LACKING, head=job(State.PENDING, resources={"memory_mb": 9})),
            ["agents_in_trouble", "agents_lack"],
            "the disk is full",
        ),
        (
            waits(LACKING, head=job(State.PENDING, resources={"memory_mb": 9}), queue=PAUSED),
            ["paused", "agents_lack"],
            "paused",
        ),
        (
            waits(LACKING, READY, head=job(State.PENDING, resources={"disk_mb": 9})),
            ["about_to_start", "agents_lack"],
            "4 slots free",
        ),
        (waits(LACKING, head=job(State.PENDING, resources={"pids": 9})), ["about_to_start"], "4"),
        (
            waits(NO_DISK, replace(NO_DISK, name="b", disk=HostDisk(-9, 900)), head=LARGE_DISK),
            ["disk_full"],
            "free: it asks for 350 MB, and web-1 has 200 of 900 MB free for jobs; it starts when",
        ),
        (waits(NO_DISK), ["about_to_start"], "4 slots free"),
        (
            waits(NO_DISK, replace(FULL, name="b"), head=LARGE_DISK),
            ["disk_full", "no_free_slot"],
            "",
        ),
        (waits(NO_DISK, replace(READY, name="b"), head=LARGE_DISK), ["about_to_start"], "4 slots"),
        (
            waits(replace(NO_DISK, disk=HostDisk(200, 300)), head=LARGE_DISK),
            ["agents_lack"],
            "web-1 lacks 350 MB of disk: start an agent",
        ),
        (
            waits(replace(NO_DISK, work_disk=HostDisk(100, 900)), head=LARGE_DISK),
            ["disk_full"],
            "has too little disk for work directories free: it asks for 300 MB, and web-1 has 100 ",
        ),
        (
            waits(replace(NO_DISK, work_disk=HostDisk(300, 900)), head=LARGE_DISK),
            ["about_to_start"],
            "4 slots",
        ),
        (
            waits(replace(NO_DISK, work_disk=HostDisk(0, 200)), head=LARGE_DISK),
            ["agents_lack"],
            "web-1 lacks 300 MB of disk for work directories: start an agent",
        ),
        (
            waits(NO_DISK, head=replace(job(State.PENDING), files_mb=151)),
            ["disk_full"],
            "it asks for 201 MB",
        ),
        (waits(FULL), ["no_free_slot"], "as of heartbeats of up to 5 s ago: it starts when a job"),
        (
            waits(FULL, lanes=BUSY),
            ["no_free_slot", "jobs_ahead"],
            "all 4 slots of 1 agent are taken",
        ),
        (
            waits(READY, lanes=BUSY),
            ["jobs_ahead", "about_to_start"],
            "about 9 messages in lane default of queue default and about 3 in the lanes that",
        ),
        (
            waits(READY, head=job(State.PENDING, ago_s=90), lanes={"default": Messages(0, 0, 0)}),
            ["message_lost_hint"],
            "it has waited for 90 s; SQS shows no message in its lane (an estimate), so",
        ),
        (
            waits(READY, head=job(State.PENDING, ago_s=90), lanes={"default": Messages(0, 1, 0)}),
            ["message_lost_hint"],
            "An agent may have given its message back",
        ),
        (
            waits(
                READY, head=replace(job(State.PENDING, ago_s=90), waits_for="waits for 9 MB; agent")
            ),
            ["agent_note"],
            "an agent that had its message wrote: waits for 9 MB; agent; that was true then",
        ),
        (
            waits(READY, head=replace(job(State.PENDING, ago_s=9), waits_for="waits for 9 MB")),
            ["agent_note"],  # and not that it should start within seconds
            "waits for 9 MB",
        ),
        (
            waits(
                READY,
                queue=replace(OPEN, maxima=(Maxima(memory_mb=512),)),
                head=job(State.PENDING, resources={"memory_mb": 2048}),
            ),
            ["too_large"],
            "gives a job more than 512 of memory_mb, and it asks for 2048",
        ),
        (
            waits(
                READY,
                queue=replace(OPEN, maxima=(Maxima(cores=8),)),
                head=job(State.PENDING, resources={"cores": "2,9"}),
            ),
            ["too_large"],
            "gives a job more than 8 of cores, and it asks for 10",
        ),
        (
            waits(READY, queue=replace(OPEN, settings=QueueSettings(threads=0))),
            ["thread_limit"],
            "an agent may run 0 jobs of queue default at once (threads)",
        ),
        (
            waits(READY, queue=replace(OPEN, settings=QueueSettings(cluster_threads=0))),
            ["cluster_limit"],
            "the agents together may run 0 jobs of queue default at once (cluster_threads)",
        ),
        (
            waits(READY, head=job(State.PENDING, deadline=rfc3339(NOW + 60_000))),
            ["about_to_start", "deadline"],
            "slots free",
        ),
        (
            waits(FULL, head=job(State.PENDING, deadline=rfc3339(NOW - 10_000))),
            ["deadline", "no_free_slot"],
            "(10 s ago): it expires within a minute",
        ),
        (
            waits(FULL, head=job(State.PENDING, deadline=rfc3339(NOW - 300_000))),
            ["requeue_late", "no_free_slot"],
            "its deadline passed at 2027-01-15T07:55:00Z (5 min ago), and the requeue function",
        ),
    ],
)
def test_a_job_in_a_lane_says_what_decides_first(
    situation: Situation, expected: list[Code], words: str
):
    assert expected == codes(situation)
    assert words in first(situation).text


def limited(head: Head, counted: Counted, **known: Any) -> Situation:
    rows = (replace(READY, running=counted.of_queue),)
    return waits(head=head, agents=Agents(rows, counted={"web-1": counted}), **known)


def test_a_share_of_a_limit_stops_an_agent_that_has_free_slots():
    shares = share_out("default", 2, [("web-1", EARLY)], NOW)
    queue = replace(OPEN, settings=QueueSettings(cluster_threads=2, shares=shares))
    head = job(State.PENDING)
    assert "cluster_limit" == first(limited(head, Counted(2, 2), queue=queue)).code
    assert "about_to_start" == first(limited(head, Counted(1, 1), queue=queue)).code
    queue = replace(OPEN, settings=QueueSettings(threads=3))
    reason = first(limited(head, Counted(3, 0), queue=queue))
    assert ("thread_limit", 3) == (reason.code, reason.facts["running"])
    tenants = share_out_tenants({"acme": 1}, {"default": ()}, [READY], NOW)
    reason = first(limited(head, Counted(1, 1), limits=TenantLimit(1, tenants)))
    assert "running_limit" == reason.code
    assert "tenant acme may run 1 job at once (jobs_running)" in reason.text
    assert (
        "about_to_start" == first(limited(head, Counted(1, 0), limits=TenantLimit(1, tenants))).code
    )


def test_a_tenant_whose_limit_is_none_is_paused():
    tenants = share_out_tenants({"acme": 0}, {"default": ()}, [READY], NOW)
    head = job(State.PENDING)
    reason = first(limited(head, Counted(0, 0), limits=TenantLimit(0, tenants)))
    assert ("running_limit", 0) == (reason.code, reason.facts["limit"])
    assert "tenant acme is paused: joblane.toml has tenants.acme.limits.jobs_running = 0" in (
        reason.text
    )


def test_an_agent_that_has_just_come_has_no_share_yet():
    shares = share_out("default", 2, [("web-0", EARLY)], NOW - 60_000)
    queue = replace(OPEN, settings=QueueSettings(cluster_threads=2, shares=shares))
    row = replace(READY, since_ms=NOW - 10_000)
    tenants = share_out_tenants({"acme": 1}, {"default": ()}, [READY], NOW - 60_000)
    for situation in (waits(row, queue=queue), waits(row, limits=TenantLimit(1, tenants))):
        text = first(situation).text
        assert text.endswith("; 1 agent has just come, and gets a share within two minutes")
    assert "just come" not in first(waits(replace(READY, running=2), queue=queue)).text


def test_a_limit_that_stops_a_free_agent_is_named_before_the_slots_that_are_taken():
    queue = replace(OPEN, settings=QueueSettings(threads=1))
    rows = (replace(READY, running=1), replace(FULL, name="web-2"))
    agents = Agents(rows, counted={"web-1": Counted(1, 1), "web-2": Counted(1, 1)})
    situation = waits(agents=agents, queue=queue)
    assert ["thread_limit", "no_free_slot"] == codes(situation)
    assert "all 4 slots of 1 other agent are taken" in explain(situation)[1].text


def test_a_pause_is_named_before_everything_else_that_stops_the_job():
    assert ["paused", "no_agents"] == codes(waits(queue=PAUSED))
    assert ["paused", "no_free_slot", "jobs_ahead"] == codes(waits(FULL, queue=PAUSED, lanes=BUSY))
    text = first(waits(queue=replace(PAUSED, may_change=False))).text
    assert text.endswith("until the role platform resumes it")


def handed_back(reason: str) -> Head:
    """A job that web-1 has claimed and handed back, two minutes ago."""
    head = job(State.PENDING, ago_s=120, resources={"cores": "9"})
    claim = Step(State.ACTIVE, NOW - 120_000, 1, "claimed", "web-1")
    back = Step(State.PENDING, NOW - 120_000, 0, f"{reason}; waits for another agent", "web-1")
    return replace(head, timeline=(*head.timeline, claim, back), outcome=Outcome.INTERRUPTED)


def test_what_a_host_lacks_for_one_job_is_said_as_its_agent_wrote_it():
    """Sending its message again cannot help."""
    head = handed_back(describe_lack("web-1", "cores '9': core 9 is not one of this host's (0,1)"))
    situation = waits(READY, head=head)
    assert ["agents_lack", "last_attempt"] == codes(situation)
    assert (
        "no live agent of queue default can give it what it asks for; web-1 says: cores "
        "'9': core 9 is not one of this host's (0,1): start an agent whose host has it, or edit "
        "the job to ask for less"
    ) == first(situation).text
    other = replace(READY, name="web-2")
    assert "message_lost_hint" == first(waits(READY, other, head=head)).code
    anew = replace(READY, since_ms=NOW - 10_000)  # it may have been given a larger host's disk
    assert "message_lost_hint" == first(waits(anew, head=head)).code
    drained = handed_back("agent web-1 drains")
    assert "message_lost_hint" == first(waits(READY, head=drained)).code


RESUMED = replace(
    OPEN,
    settings=QueueSettings(version=2, changed_ms=NOW - 3_000, changed_by="ann"),
)


def test_after_a_resume_agents_have_not_read_it_yet():
    """A job that waited for the pause would else seem to be one whose message is lost."""
    old = job(State.PENDING, ago_s=3600)
    situation = waits(READY, head=old, queue=RESUMED)
    assert ["settings_changed"] == codes(situation)
    assert (
        "queue default was resumed or given other limits at 2027-01-15T07:59:57Z (3 s ago) by ann; "
        "agents read that within 20 s: agents have 4 slots free, so it should start then"
    ) == first(situation).text
    assert "2027-01-15T08:00:17.000Z" == first(situation).facts["read_by_at"]
    assert ["settings_changed", "jobs_ahead"] == codes(replace(situation, lanes=BUSY))
    later = replace(situation, now_ms=NOW + 20_000)
    later = replace(later, agents=Agents((replace(READY, beat_ms=NOW + 19_000),)))
    assert ["about_to_start"] == codes(later)
    lost = replace(situation, now_ms=NOW + 80_000)
    lost = replace(lost, agents=Agents((replace(READY, beat_ms=NOW + 79_000),)))
    assert ["message_lost_hint"] == codes(lost)
    assert "it has waited for 63 s" in first(lost).text
    assert ["no_free_slot"] == codes(waits(FULL, head=old, queue=RESUMED))


def test_after_a_pause_agents_have_not_read_it_yet():
    queue = replace(PAUSED, settings=replace(PAUSED.settings, changed_ms=NOW - 3_000))
    text = first(waits(READY, queue=queue)).text
    assert text.endswith("until an operator resumes it; agents read that within 20 s")
    assert "within 20 s" not in first(waits(READY, queue=PAUSED)).text


def test_a_job_of_one_agent_waits_for_it_to_read_a_resume_too():
    head = replace(job(State.PENDING, ago_s=3600, target="host:web-1"), assigned="web-1")
    situation = Situation(head, NOW, queue=RESUMED, agent=READY)
    assert ["assigned_agent", "settings_changed"] == codes(situation)


def test_an_agents_words_keep_ids_of_jobs_to_themselves():
    row = replace(READY, trouble=f"takes no jobs: /jobs/{OTHER}.1 has no room")
    (reason,) = explain(waits(row))
    assert "/jobs/\u2026.1 has no room" in reason.text
    assert OTHER not in str(reason)
