"""What becomes of a job that only one agent may run, for every kind of agent."""

from dataclasses import replace

import pytest

from joblane.formats.times import rfc3339
from joblane.job.assigned import Fate, judge
from joblane.job.head import Head, make_head
from joblane.state.lease import LEASE_S, Heartbeat
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import Step
from tests.support.jobs import JOB, submission

NOW = 10_000_000
ALIVE = Heartbeat("web-1", 0, NOW - 5_000, 4, 0, ("default",), "full", "1", labels={})
GONE = replace(ALIVE, beat_ms=NOW - LEASE_S * 1000)


def job(state: State, reply_by: int | None = None, ago_ms: int = 0, **spec: object) -> Head:
    head = make_head(JOB, "acme", submission(target="host:web-1", **spec), 1_000)
    step = Step(state, NOW - ago_ms, 1, "because")
    return replace(
        head, state=state, assigned="web-1", reply_by_ms=reply_by, timeline=(*head.timeline, step)
    )


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (None, "it has left, or was never there"),
        (GONE, "its last heartbeat was at 1970-01-01T02:41:40"),
        (replace(ALIVE, beat_ms=0), "its instance has ended"),
        (replace(ALIVE, beat_ms=NOW - 30_000), "its last heartbeat was at 1970-01-01T02:46:10"),
        (replace(ALIVE, mode="cordoned"), "it is cordoned"),
        (replace(ALIVE, trouble="the disk is full"), "it takes no jobs: the disk is full"),
        (replace(ALIVE, running=4), "all of its 4 slots are taken; a longer reply_timeout_s"),
        (ALIVE, "it is alive, and has not claimed the job"),
    ],
)
def test_a_silent_agent_is_named_with_what_is_known_of_it(agent: Heartbeat | None, why: str):
    head = job(State.PENDING, NOW, reply_timeout_s=7.5)
    verdict = judge(head, agent, NOW)
    assert Fate.NO_REPLY is verdict.fate
    assert verdict.reason.startswith(f"agent web-1 did not respond within 7.5 s: {why}")
    assert Fate.WAIT is judge(head, agent, NOW - 1).fate


def test_the_reason_names_a_restart_since_the_job_was_sent():
    """Its message was hidden for as long as SQS waits for the process that had received it."""
    restarted = replace(ALIVE, since_ms=NOW - 20_000)
    reason = judge(job(State.PENDING, NOW, ago_ms=60_000), restarted, NOW).reason
    assert f"within 60 s: it started again at {rfc3339(NOW - 20_000)}; it is alive" in reason
    assert "started again" not in judge(job(State.PENDING, NOW), ALIVE, NOW).reason


def test_a_running_job_ends_with_its_agents_lease():
    head = job(State.ACTIVE)
    assert Fate.WAIT is judge(head, replace(GONE, beat_ms=GONE.beat_ms + 1), NOW).fate
    for agent in (GONE, None):
        verdict = judge(head, agent, NOW)
        assert Fate.LOST is verdict.fate
        assert "agent web-1 was lost while it ran the job, and only it may run it" in verdict.reason


@pytest.mark.parametrize("state", [State.PENDING, State.RETRY, State.BLOCKED])
def test_an_agent_that_left_has_the_time_of_a_lease_to_come_back(state: State):
    assert Fate.WAIT is judge(job(state, ago_ms=LEASE_S * 1000 - 1), None, NOW).fate
    assert Fate.WAIT is judge(job(state, ago_ms=LEASE_S * 1000), ALIVE, NOW).fate
    assert Fate.NO_REPLY is judge(job(state, ago_ms=LEASE_S * 1000), None, NOW).fate


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        (State.PENDING, Fate.EXPIRE),
        (State.RETRY, Fate.EXPIRE),
        (State.BLOCKED, Fate.EXPIRE),
        (State.ACTIVE, Fate.STOP),
    ],
)
def test_a_deadline_holds_for_a_job_with_a_target(state: State, fate: Fate):
    assert fate is judge(job(state, deadline=rfc3339(NOW)), ALIVE, NOW).fate
    assert Fate.WAIT is judge(job(state, deadline=rfc3339(NOW + 1)), ALIVE, NOW).fate


@pytest.mark.parametrize("state", sorted(ENDED))
def test_what_has_ended_stays(state: State):
    assert Fate.WAIT is judge(job(state, 1, deadline=rfc3339(1)), None, NOW).fate
