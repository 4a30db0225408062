"""When an agent ends its instance: tables of the decisions."""

from dataclasses import replace

import pytest

from joblane.fleet.idle import (
    AGAIN_S,
    Idleness,
    IdleSituation,
    LeaveReason,
    LeavingPolicy,
    Look,
    decrements,
    old_at_s,
    why_leave,
)

DAY_S = 86_400.0
POLICY = LeavingPolicy(idle_s=300, age_s=13 * DAY_S)
NEVER = LeavingPolicy(idle_s=None, age_s=13 * DAY_S)
NO_FLEET = LeavingPolicy()
YOUNG, OLD = IdleSituation(age_s=DAY_S), IdleSituation(age_s=13 * DAY_S)


@pytest.mark.parametrize(
    ("policy", "now", "expected"),
    [
        (POLICY, YOUNG, None),
        (POLICY, replace(YOUNG, idle_for_s=299), None),
        (POLICY, replace(YOUNG, idle_for_s=300), LeaveReason.IDLE),
        (POLICY, replace(YOUNG, surplus=True), LeaveReason.SURPLUS),
        (POLICY, replace(YOUNG, idle_for_s=300, surplus=True), LeaveReason.SURPLUS),
        (POLICY, replace(OLD, age_s=13 * DAY_S - 1), None),
        (POLICY, OLD, LeaveReason.AGE),
        # An old one leaves at the smallest size as well, so its age counts first.
        (POLICY, replace(OLD, idle_for_s=900, surplus=True), LeaveReason.AGE),
        # `idle_s = "never"` keeps instances, whatever the scaler says; not old ones.
        (NEVER, replace(YOUNG, idle_for_s=1e9), None),
        (NEVER, replace(YOUNG, surplus=True), None),
        (NEVER, OLD, LeaveReason.AGE),
        # After a refusal it serves for a while.
        (POLICY, replace(OLD, refused_s_ago=299), None),
        (POLICY, replace(OLD, refused_s_ago=300), LeaveReason.AGE),
        (POLICY, replace(YOUNG, surplus=True, refused_s_ago=0), None),
        (NEVER, replace(OLD, refused_s_ago=AGAIN_S - 1), None),
        (NEVER, replace(OLD, refused_s_ago=AGAIN_S), LeaveReason.AGE),
        # Cordoned: an operator looks at it. Draining: it leaves already.
        (POLICY, replace(OLD, able=False, idle_for_s=900, surplus=True), None),
        # Outside of fleets an agent never leaves by itself.
        (NO_FLEET, replace(OLD, age_s=1e9, idle_for_s=1e9, surplus=True), None),
    ],
)
def test_why_an_agent_leaves(
    policy: LeavingPolicy, now: IdleSituation, expected: LeaveReason | None
):
    assert expected is why_leave(policy, now)


@pytest.mark.parametrize(
    ("reason", "expected", "waits"),
    [
        (LeaveReason.IDLE, [True], False),
        (LeaveReason.SURPLUS, [True], True),
        (LeaveReason.AGE, [True, False], True),
        (LeaveReason.REBALANCE, [False], False),
    ],
)
def test_what_is_asked_of_the_group(reason: LeaveReason, expected: list[bool], waits: bool):
    assert (expected, waits) == (list(decrements(reason)), reason.waits)


def test_instances_that_started_together_are_old_one_after_the_other():
    names = [f"i-0{number:016x}" for number in range(200)]
    points = sorted(old_at_s(name, 14 * DAY_S) for name in names)
    assert 0.9 * 14 * DAY_S <= points[0]
    assert points[-1] < 14 * DAY_S
    assert points == sorted(old_at_s(name, 14 * DAY_S) for name in names), "each time the same"
    # In ten equal parts of the time, no part has a third of them or none.
    tenths = [int((point / (14 * DAY_S) - 0.9) * 100) for point in points]
    assert set(range(10)) == set(tenths)
    assert max(map(tenths.count, range(10))) < len(names) / 3


QUIET = Look(at_work=False, able=True, begun=7, failed=2, stalled=False)


@pytest.mark.parametrize(
    ("look", "since"),
    [
        (QUIET, 100),
        (replace(QUIET, at_work=True), 400),
        (replace(QUIET, able=False), 400),
        (replace(QUIET, begun=8), 400),  # a job came and ended between two looks
        (replace(QUIET, failed=3), 400),  # SQS did not answer: nothing says that no job waits
        (replace(QUIET, stalled=True), 400),
    ],
)
def test_since_when_an_agent_is_idle(look: Look, since: float):
    assert since == Idleness(100, begun=7, failed=2).after(look, 400).since


def test_polls_that_fail_all_the_time_are_no_time_without_jobs():
    idle, now = Idleness(0), 0.0
    for now in range(0, 3600, 5):
        idle = idle.after(replace(QUIET, failed=now // 20), now)
    assert now - idle.since < 20
    for now in range(3600, 4000, 5):
        idle = idle.after(replace(QUIET, failed=179), now)
    assert now - idle.since >= 300
