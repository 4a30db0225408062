"""Situations of jobs, for the tests of why a job waits."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from joblane.condition.state import ConditionState, Phase
from joblane.deployment.names import Lane
from joblane.fleet.record import STALE_MS, FleetRecord
from joblane.formats.times import rfc3339
from joblane.group.record import Group
from joblane.job.head import Head, make_head
from joblane.key.segments import KeyName
from joblane.queue.maxima import Maxima
from joblane.queue.settings import QueueSettings
from joblane.queue.tenant_shares import TenantShares
from joblane.state.lease import LEASE_S, Heartbeat
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.why.explain import explain
from joblane.why.reason import Code, Reason
from joblane.why.situation import (
    Agents,
    Counted,
    Fleet,
    Messages,
    Queue,
    Situation,
    TenantLimit,
)
from tests.support.jobs import JOB, submission

NOW = 1_800_000_000_000
EARLY = NOW - 3_600_000
READY = Heartbeat("web-1", EARLY, NOW - 5_000, 4, 0, ("default",), "full", "1", labels={})
FULL = replace(READY, running=4)
GONE = replace(READY, beat_ms=NOW - LEASE_S * 1000)
SILENT = replace(READY, beat_ms=NOW - 40_000)
CORDONED = replace(READY, mode="cordoned")
TROUBLED = replace(READY, trouble="takes no jobs: the disk is full")
LACKING = replace(READY, lacks=("disk_mb", "egress", "memory_mb"))
OTHER = "01BRZ3NDEKTSV4RRFFQ69G5FAV"
QUIET: dict[Lane, Messages] = {"high": Messages(0, 0, 0), "default": Messages(1, 0, 0)}
BUSY: dict[Lane, Messages] = {"high": Messages(3, 0, 0), "default": Messages(9, 4, 0)}
OPEN = Queue(threads=4, may_change=True)
PAUSED = replace(
    OPEN,
    settings=QueueSettings(run_jobs=False, version=1, changed_ms=NOW - 60_000, changed_by="ann"),
)


def job(state: State, *, ago_s: float = 5, attempt: int = 0, **spec: Any) -> Head:
    head = make_head(JOB, "acme", submission(**spec), EARLY)
    step = Step(state, NOW - round(ago_s * 1000), attempt, "because")
    before = replace(head.timeline[0], state=State.SCHEDULED)  # a line of the same state is an edit
    first = before if state is State.PENDING else head.timeline[0]
    return replace(head, state=state, attempt=attempt, timeline=(first, step))


def waits(*agents: Heartbeat, head: Head | None = None, **known: Any) -> Situation:
    """A pending job, and the agents that were read."""
    known = {"queue": OPEN, "lanes": QUIET, **known}
    known.setdefault("agents", Agents(agents))
    return Situation(head or job(State.PENDING), NOW, **known)


def codes(situation: Situation) -> list[Code]:
    return [reason.code for reason in explain(situation)]


def first(situation: Situation) -> Reason:
    return explain(situation)[0]


CONDITION = ConditionState(
    "http:https://a.test/", NOW - 60_000, Phase.RUNNING, NOW - 60_000, 3, 0, "answered 503"
)


heartbeats = st.builds(
    Heartbeat,
    name=st.sampled_from(["a", "b", "c"]),
    since_ms=st.just(EARLY),
    beat_ms=st.sampled_from([0, NOW, NOW - 35_000, NOW - 400_000]),
    threads=st.integers(0, 4),
    running=st.integers(0, 5),
    queues=st.sampled_from([("default",), ("bulk",), ()]),
    isolation=st.just("full"),
    version=st.just("1"),
    jobs=st.sampled_from([(), (JOB,), (OTHER,)]),
    trouble=st.sampled_from([None, f"takes no jobs: {OTHER}", f"2 outcome(s) wait: {OTHER}"]),
    mode=st.sampled_from([None, "cordoned", "draining"]),
)
queues = st.builds(
    Queue,
    settings=st.builds(
        QueueSettings,
        run_jobs=st.booleans(),
        threads=st.none() | st.integers(0, 5),
        cluster_threads=st.none() | st.integers(0, 5),
    ),
    threads=st.integers(1, 4),
    maxima=st.sampled_from([(), (Maxima(memory_mb=512, cpus=1),)]),
    may_change=st.booleans(),
    gone=st.booleans(),
    moves_to=st.sampled_from([None, "new"]),
    misfit=st.sampled_from([None, "tenant acme may not use it"]),
    next_move_ms=st.sampled_from([None, NOW - 1, NOW + 60_000]),
)
TIMES = st.none() | st.integers(EARLY, NOW)
COUNTS = st.integers(0, 9)
records = st.builds(
    FleetRecord,
    decided_ms=st.integers(NOW - 2 * STALE_MS, NOW),
    wanted=COUNTS,
    desired=COUNTS,
    max=COUNTS,
    in_service=COUNTS,
    alive=COUNTS,
    busy=COUNTS,
    booting=COUNTS,
    backlog=COUNTS,
    limit=st.sampled_from([None, "max", "step", "short", "broken"]),
    below_since_ms=TIMES,
    short_since_ms=TIMES,
    short_reason=st.sampled_from([None, "We currently do not have sufficient m5.large capacity."]),
    blind_since_ms=TIMES,
    blind_reason=st.sampled_from([None, "SQS: ThrottlingException"]),
    blind_queues=st.sampled_from([(), ("default",), ("bulk", "night")]),
    raised_ms=TIMES,
    suspended=st.sampled_from([(), ("Launch",), ("AZRebalance",)]),
)
fleets = st.lists(
    st.builds(
        Fleet,
        name=st.sampled_from(["main", "spare", "night"]),
        group=st.just("joblane-main"),
        max_size=COUNTS,
        instance_types=st.just(("m5.large",)),
        record=st.none() | records,
        unread=st.booleans(),
    ),
    max_size=3,
    unique_by=lambda fleet: fleet.name,
).map(tuple)

situations = st.builds(
    Situation,
    head=st.builds(
        lambda state, spec, **changes: replace(
            job(state, attempt=1, **spec), assigned="a" if "target" in spec else None, **changes
        ),
        state=st.sampled_from(State),
        spec=st.sampled_from(
            [
                {},
                {"deadline": rfc3339(NOW - 1)},
                {"deadline": rfc3339(NOW + 1)},
                {"target": "host:a"},
                {"resources": {"cpus": 4}},
            ]
        ),
        next_at_ms=st.none() | st.integers(NOW - 1_000_000, NOW + 1_000_000),
        waits_for=st.sampled_from([None, "waits for 9 MB"]),
        reply_by_ms=st.sampled_from([None, NOW - 1, NOW + 1]),
        agent=st.sampled_from([None, "a"]),
        outcome=st.none() | st.sampled_from(Outcome),
        exit_code=st.sampled_from([None, 0, 1, 126, 127]),
        key=st.sampled_from([None, KeyName("command", "0" * 32)]),
        group=st.sampled_from([None, Group(0, OTHER), Group(300, OTHER, begun=120)]),
    ),
    now_ms=st.just(NOW),
    queue=st.none() | queues,
    agents=st.none()
    | st.builds(
        Agents,
        st.lists(heartbeats, max_size=4, unique_by=lambda row: row.name).map(tuple),
        st.booleans(),
        st.none()
        | st.dictionaries(
            st.sampled_from(["a", "b"]), st.builds(Counted, st.integers(0, 4), st.integers(0, 4))
        ),
    ),
    lanes=st.sampled_from([None, QUIET, BUSY]),
    limits=st.none() | st.builds(TenantLimit, st.integers(1, 4), st.just(TenantShares())),
    agent=st.none() | heartbeats,
    condition=st.sampled_from([None, CONDITION, replace(CONDITION, allow=2)]),
    most_s=st.none() | st.just(60),
    fleets=st.none() | fleets,
)
