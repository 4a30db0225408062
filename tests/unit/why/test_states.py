"""Why a job is in each of the other states: its reasons, in their order."""

from dataclasses import replace
from typing import Any

import pytest

from joblane.condition.state import ConditionState
from joblane.formats.times import rfc3339
from joblane.group.record import Group, MemberOf
from joblane.job.head import Head
from joblane.key.policy import KeyLimits
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from joblane.queue.maxima import Maxima
from joblane.state.lease import AttemptProgress, Heartbeat, Progress
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.why.explain import explain
from joblane.why.situation import (
    Key,
    Members,
    Situation,
)
from tests.support.jobs import JOB
from tests.support.situations import (
    CONDITION,
    CORDONED,
    FULL,
    GONE,
    NOW,
    OPEN,
    OTHER,
    PAUSED,
    READY,
    SILENT,
    codes,
    first,
    job,
    waits,
)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (None, "only agent web-1 may run it: it has left, or was never there; it fails unless"),
        (CORDONED, "it is cordoned"),
        (FULL, "all of its 4 slots are taken"),
        (READY, "it is alive, and has not claimed the job"),
    ],
)
def test_a_job_of_one_agent_says_how_that_one_is(agent: Heartbeat | None, words: str):
    head = replace(job(State.PENDING, target="host:web-1"), assigned="web-1")
    situation = Situation(replace(head, reply_by_ms=NOW + 20_000), NOW, queue=OPEN, agent=agent)
    reason = first(situation)
    assert ("assigned_agent", "web-1") == (reason.code, reason.facts["agent"])
    assert words in reason.text
    assert "(in 20 s)" in reason.text
    late = first(replace(situation, head=replace(head, reply_by_ms=NOW)))
    assert "agent web-1 did not respond within 60 s: " in late.text
    assert late.text.endswith("; the job fails within a minute")


def test_a_retry_waits_for_its_backoff_and_then_as_any_other():
    claimed = Step(State.ACTIVE, NOW - 9_000, 1, "claimed", "web-1")
    failed = Step(State.RETRY, NOW - 5_000, 1, "exit code 3 after 1 s (attempt 1 of 3)")
    head = replace(job(State.RETRY, attempt=1), timeline=(claimed, failed), next_at_ms=NOW + 25_000)
    situation = Situation(head, NOW, queue=OPEN)
    assert ["backoff", "last_attempt"] == codes(situation)
    assert "attempt 1 of 3 failed, and the next one starts at" in first(situation).text
    assert "(in 25 s)" in first(situation).text
    assert "exit code 3 after 1 s" in explain(situation)[1].text
    assert ["backoff", "last_attempt", "paused"] == codes(replace(situation, queue=PAUSED))
    due = replace(head, next_at_ms=NOW - 1_000)
    assert ["no_free_slot", "last_attempt"] == codes(waits(FULL, head=due))


def test_a_scheduled_job_waits_for_its_time_and_says_if_nobody_moves_it():
    head = replace(job(State.SCHEDULED), next_at_ms=NOW + 7_200_000)
    reason = first(Situation(head, NOW))
    assert ("run_at", 7200.0) == (reason.code, reason.facts["wait_s"])
    assert "(in 2 h); it enters its lane within a minute after that" in reason.text
    assert ["run_at", "paused"] == codes(Situation(head, NOW, queue=PAUSED))
    assert "run_at" == first(Situation(replace(head, next_at_ms=NOW - 60_000), NOW)).code
    late = first(Situation(replace(head, next_at_ms=NOW - 130_000), NOW))
    assert ("requeue_late", 130.0) == (late.code, late.facts["late_s"])


def keyed(active: dict[str, int], queued: tuple[str, ...], *holders: Head) -> Situation:
    head = replace(job(State.WAITING), key=KeyName("command", "0" * 32))
    state = KeyState(9, active, queued, KeyLimits(max_active=2, max_queued=9))
    command = "joblane keys get command acme"
    return Situation(head, NOW, key=Key(state, '["acme"]', command, holders))


def test_a_job_that_waits_for_its_key_names_who_has_it_and_its_place():
    blocked = replace(job(State.BLOCKED, ago_s=600), job_id=OTHER)
    situation = keyed({OTHER: 8, "b": 9}, ("a", JOB), blocked)
    held, place = explain(situation)
    assert ["key_held", "key_queue"] == codes(situation)
    assert '2 of 2 slots of key ["acme"] are taken, by job' in held.text
    assert "and 1 other, which is blocked since" in held.text
    assert held.text.endswith("(because)")
    assert (f"joblane why {OTHER}", "joblane keys get command acme") == held.commands
    assert "1 job of the key gets a slot before it; 2 jobs wait for the key" == place.text
    assert (2, 2) == (place.facts["position"], place.facts["queued"])


def test_a_job_that_its_key_does_not_list_any_more_is_about_to_move():
    fresh = keyed({JOB: 9}, ())
    assert "it has a slot of key" in first(fresh).text
    assert "sequel" not in first(fresh).text
    late = replace(fresh, head=replace(fresh.head, timeline=job(State.WAITING, ago_s=90).timeline))
    assert "see the alarm and the log of the function sequel" in first(late).text


def held(condition: ConditionState | None, name: str = CONDITION.condition) -> Situation:
    head = replace(job(State.BLOCKED, ago_s=60), condition=name)
    return Situation(head, NOW, condition=condition, most_s=3600)


@pytest.mark.parametrize(
    ("situation", "words", "test"),
    [
        (
            held(replace(CONDITION, next_ms=NOW + 12_000)),
            "found: answered 503; the job fails if that is so at 2027-01-15T08:59:00Z (in 59 min)",
            "is tested next at 2027-01-15T08:00:12Z (in 12 s)",
        ),
        (
            held(replace(CONDITION, next_ms=NOW - 300_000)),
            "the last of 3 tests found",
            "was due at 2027-01-15T07:55:00Z (5 min ago) and has not come",
        ),
        (
            held(replace(CONDITION, tests=0)),
            "it was not tested since; the job said: because",
            "has no time yet: its execution is starting",
        ),
        (
            held(replace(CONDITION, allow=10, next_ms=NOW + 1)),
            "the last test let jobs go, one round after another, and this one follows",
            "is tested next at",
        ),
    ],
)
def test_a_blocked_job_says_what_the_last_test_found_and_when_the_next_is(
    situation: Situation, words: str, test: str
):
    assert ["condition", "condition_test"] == codes(situation)
    assert words in explain(situation)[0].text
    assert test in explain(situation)[1].text


def test_a_condition_that_has_no_place_is_not_tested_yet():
    situation = held(None)
    said = "20 conditions of acme were tested when it blocked"
    situation = replace(situation, head=replace(situation.head, waits_for=said))
    assert ["condition"] == codes(situation)
    assert f"it is not tested yet: {said}" in first(situation).text


def test_an_application_is_named_as_its_tenant_names_it():
    reason = first(held(replace(CONDITION, condition="app:acme/billing"), "app:acme/billing"))
    assert ("app:billing", "joblane conditions up app:billing") == (
        reason.facts["condition"],
        reason.commands[0],
    )


def test_a_group_says_how_its_open_members_are():
    group = Group(250, OTHER, begun=100, done={0: {State.COMPLETED: 99, State.FAILED: 1}})
    head = replace(job(State.PROCESSING, target="_all", max_concurrency=5), group=group)
    member = replace(job(State.PENDING), job_id=OTHER, assigned="web-7")
    members = Members(100, {State.PENDING: 1, State.ACTIVE: 4}, member)
    reason = first(Situation(head, NOW, members=members))
    assert "at most 150 of 250 members have not ended; 150 are not begun yet, at most 5" in (
        reason.text
    )
    assert (
        "of 100 that were looked at: 1 pending, 4 active; the first of them, agent web-7, is p"
        in (reason.text)
    )
    assert f"joblane why {OTHER}" == reason.commands[0]
    assert (100, 99) == (reason.facts["ended"], reason.facts["completed"])
    head = replace(job(State.PROCESSING, target="_all", max_concurrency=100), group=group)
    assert "at most 100 at once (max_concurrency); further ones begin when 6 places are free" in (
        first(Situation(head, NOW, members=members)).text
    )


def runs(agent: Heartbeat | None, **changes: Any) -> Situation:
    head = replace(job(State.ACTIVE, attempt=2, ago_s=300), agent="web-1", epoch=2, **changes)
    return Situation(head, NOW, agent=agent)


def test_a_running_job_says_where_it_runs_and_when_it_is_stopped():
    said = AttemptProgress(JOB, 2, Progress(40, "half", NOW - 8_000))
    situation = runs(replace(READY, jobs=(JOB,), progress=(said,)))
    assert ["running"] == codes(situation)
    text = first(situation).text
    assert text.startswith("attempt 2 of 3 runs on agent web-1 since 2027-01-15T07:55:00Z (5 min")
    assert "it reported 40 % half at 2027-01-15T07:59:52Z (8 s ago)" in text
    assert "it is stopped at about 2027-01-15T08:05:00Z (in 5 min)" in text
    assert text.endswith("from its start), and killed 10 s later")
    stopping = runs(replace(READY, jobs=(JOB,)), cancel_requested="cancelled by ann")
    assert ["cancel_requested", "running"] == codes(stopping)


@pytest.mark.parametrize(
    ("agent", "words", "then"),
    [
        (None, "is gone: it has left, or was never there", "; "),
        (GONE, "is gone: its last heartbeat was at", "; "),
        (
            replace(SILENT, jobs=(JOB,)),
            "sent no heartbeat since 2027-01-15T07:59:20Z (40 s ago)",
            ", and then ",  # when its lease has ended
        ),
        (READY, "does not list the job", "; "),
    ],
)
def test_a_lost_agent_is_named_before_the_run(agent: Heartbeat | None, words: str, then: str):
    situation = runs(agent)
    assert ["agent_lost", "running"] == codes(situation)
    assert words in first(situation).text
    taken = f"{then}a live agent of queue default takes it over, within minutes if there is one"
    assert first(situation).text.endswith(taken)
    spec = situation.head.spec.model_copy(update={"restartable": False})
    once = replace(situation, head=replace(situation.head, spec=spec))
    assert first(once).text.endswith(f"{then}the job ends failed")


CANCELLED = Group(3, OTHER, begun=3, placed=3, done={0: {State.CANCELLED: 3}})


@pytest.mark.parametrize(
    ("changes", "words", "command"),
    [
        ({"state": State.COMPLETED}, "completed at", "logs"),
        ({"state": State.FAILED}, "correct the cause, then retry it", "logs"),
        ({"state": State.DEAD, "outcome": Outcome.OOM_KILLED}, "given 512 MB of memory", "logs"),
        ({"state": State.DEAD, "outcome": Outcome.TIMED_OUT}, "it may run for 600 s", "logs"),
        (
            {"state": State.DEAD, "outcome": Outcome.FAILED, "exit_code": 127},
            "was not found",
            "logs",
        ),
        (
            {"state": State.DEAD, "outcome": Outcome.FAILED, "exit_code": 75},
            "exit code 75 is an ordinary failure unless the job has requires",
            "logs",
        ),
        (
            {"state": State.FAILED, "outcome": Outcome.PERMANENT, "exit_code": 65},
            "exit code 65 of a handler says that another attempt would fail",
            "logs",
        ),
        ({"state": State.EXPIRED, "resubmitted_as": OTHER}, f"job {OTHER} repeats it", "get"),
        (
            {"state": State.PARTIAL_FAILURE, "group": Group(2, OTHER)},
            "retry the members that failed",
            "get --failed",
        ),
        (
            {"state": State.PARTIAL_FAILURE, "group": CANCELLED},
            "partial_failure at ",
            "audit",
        ),
    ],
)
def test_an_ended_job_says_how_and_what_to_do_next(
    changes: dict[str, Any], words: str, command: str
):
    head = replace(job(changes["state"], attempt=3), **changes)
    reasons = explain(Situation(head, NOW))
    assert "ended" == reasons[0].code
    assert any(words in reason.text for reason in reasons)
    assert f"joblane {command} " in reasons[0].commands[0]


DEAD = job(State.DEAD, attempt=3)
PASSED = rfc3339(NOW - 1_000)


@pytest.mark.parametrize(
    ("head", "words", "commands"),
    [
        (DEAD, "then replay it, or dismiss it", ["logs", "dlq replay", "dlq dismiss"]),
        (
            job(State.DEAD, attempt=3, restartable=False),
            "cannot be replayed: correct the cause, then submit it again, or dismiss it",
            ["logs", "resubmit", "dlq dismiss"],
        ),
        (
            job(State.DEAD, attempt=3, deadline=PASSED),
            "resubmit it with another one (--set deadline=TIME), or dismiss it",
            ["logs", "dlq dismiss"],
        ),
        (
            replace(job(State.DEAD, attempt=3, type="sync", params={}), type_version=4),
            "push the fix, then replay it, or dismiss it; it starts with the present version of",
            ["logs", "dlq replay", "dlq dismiss"],
        ),
        (
            replace(
                job(State.FAILED, attempt=1, restartable=False, type="sync", params={}),
                type_version=4,
            ),
            "it cannot be retried: push the fix, then submit it again",
            ["logs", "resub"],
        ),
        (
            job(State.FAILED, attempt=1, restartable=False),
            "then submit it again",
            ["logs", "resub"],
        ),
        (
            job(State.EXPIRED, deadline=PASSED),
            "another one (--set deadline=TIME) if it is still",
            [],
        ),
        (job(State.STALE, deadline=PASSED), "took the slot; its deadline has passed", []),
        (
            replace(DEAD, member_of=MemberOf(OTHER, 0)),
            "correct the cause, then retry it, or its group with all that failed",
            ["logs", "retry", "retry", "get"],
        ),
        (
            replace(job(State.DEAD, deadline=PASSED), member_of=MemberOf(OTHER, 0)),
            "it is a member of a group, and cannot be retried",
            ["logs", "get"],
        ),
    ],
)
def test_only_what_the_api_takes_is_offered_for_an_ended_job(
    head: Head, words: str, commands: list[str]
):
    reason = first(Situation(head, NOW))
    assert words in reason.text
    assert len(commands) == len(reason.commands)
    for expected, found in zip(commands, reason.commands, strict=True):
        assert found.startswith(f"joblane {expected}")


def test_an_end_says_what_joblane_toml_refuses_now():
    large = job(State.CANCELLED, resources={"memory_mb": 2048})
    queue = replace(OPEN, maxima=(Maxima(memory_mb=512),))
    reason = first(Situation(large, NOW, queue=queue))
    assert (f"joblane audit {JOB}",) == reason.commands
    stale = replace(large, state=State.STALE)
    text = first(Situation(stale, NOW, queue=queue)).text
    assert text.endswith(
        "no fleet of queue default gives more than 512 of memory_mb: resubmit it with less "
        "(--set resources.memory_mb=512)"
    )
    text = first(Situation(stale, NOW, queue=replace(OPEN, declared=False))).text
    assert text.endswith(
        "queue default is not this tenant's any more: resubmit it to another one "
        "(--set queue=QUEUE)"
    )


def test_a_code_that_the_job_names_as_permanent_is_explained_as_its_own():
    head = job(State.FAILED, attempt=1, exit_codes={"permanent": [3]})
    reasons = explain(Situation(replace(head, outcome=Outcome.PERMANENT, exit_code=3), NOW))
    assert "its exit_codes say of 3 that another attempt would fail as well" == reasons[1].text


def test_a_group_whose_members_have_all_ended_is_about_to_follow():
    group = Group(100, OTHER, begun=100)
    head = replace(job(State.PROCESSING, target="_all"), group=group)
    seen = first(Situation(head, NOW, members=Members(100, {}, None)))
    assert "none of 100 members that were looked at is open" == seen.text
    over = replace(head, group=replace(group, done={0: {State.COMPLETED: 100}}))
    assert "all 100 members have ended, and its state is about to follow" == (
        first(Situation(over, NOW)).text
    )
