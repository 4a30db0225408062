"""Spans of jobs: what each change ends, and that ids and parents fit what jobs are given."""

from dataclasses import replace

import pytest

from joblane.aws.trace.stream import read_ended
from joblane.job.moves import AttemptFacts
from joblane.job.spans import Ended, Span, ends_something, spans
from joblane.state.lifecycle import ENDED, TABLE, Event, Outcome, State
from joblane.state.timeline import TIMELINE_LINES, Step
from joblane.state.trace import job_trace, span_id
from tests.support.jobs import JOB
from tests.support.keyed import NOW_MS
from tests.support.keys import job
from tests.support.span_scene import CALLER, Scene

ROOT = span_id(job("A"), 0)


def brief(found: list[Span]) -> list[tuple[str, int, int]]:
    """Names, and seconds since the submission."""
    return [
        (each.name, (each.start_ms - NOW_MS) // 1000, (each.end_ms - NOW_MS) // 1000)
        for each in found
    ]


@pytest.fixture(name="scene")
def _scene() -> Scene:
    scene = Scene()
    scene.put()
    return scene


def test_a_simple_job_is_three_spans_in_one_message(scene: Scene):
    scene.claim()
    assert [] == scene.spans()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED, exit_code=0, usage_json='{"cpu_s":0.5}')
    (ended,) = scene.read()
    wait, attempt, whole = spans(ended)
    assert [("wait pending", 0, 1), ("attempt default", 1, 2), ("process default", 0, 2)] == brief(
        [wait, attempt, whole]
    )
    assert {
        "joblane.job.id": job("A"),
        "joblane.tenant": "acme",
        "joblane.attempt": 1,
        "joblane.epoch": 1,
        "joblane.outcome": "succeeded",
        "host.name": "agent-1",
        "process.exit.code": 0,
        "joblane.usage.cpu_s": 0.5,
    } == attempt.attributes
    assert {
        "joblane.job.id": job("A"),
        "joblane.tenant": "acme",
        "messaging.system": "joblane",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": job("A"),
        "joblane.job.name": "nightly",
        "joblane.job.state": "completed",
        "joblane.job.claims": 1,
    } == whole.attributes
    assert [None] * 3 == [each.error for each in (wait, attempt, whole)]
    assert ["internal", "internal", "consumer"] == [e.kind for e in (wait, attempt, whole)]
    assert () == whole.events


def test_the_attempt_is_what_its_variable_names_and_the_job_is_below_its_caller(scene: Scene):
    head = scene.claim()
    given = head.trace.under(head.span_id)  # TRACEPARENT
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    wait, attempt, whole = scene.spans()
    assert (given.trace_id, given.parent_id) == (attempt.context.trace_id, attempt.span_id)
    assert {ROOT} == {wait.context.parent_id, attempt.context.parent_id, whole.span_id}
    assert CALLER == whole.context
    assert (True, True) == (whole.top, whole.remote)
    assert not any(each.top or each.remote for each in (wait, attempt))


def test_without_a_caller_the_job_is_what_its_own_context_names():
    scene = Scene()
    scene.head = replace(scene.head, caller_trace=None)
    scene.put()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    *_, whole = scene.spans()
    assert job_trace(job("A"), None).parent_id == whole.span_id
    assert (True, False) == (whole.top, whole.remote)


def test_each_attempt_comes_with_its_own_end(scene: Scene):
    for number, code in enumerate((3, 4), 1):
        scene.claim(f"agent-{number}")
        scene.settle(State.RETRY, Outcome.FAILED, exit_code=code)
        _, attempt = scene.spans()
        assert (number, code, f"agent-{number}", "failed", "failed") == tuple(
            attempt.attributes[name]
            for name in (
                "joblane.attempt",
                "process.exit.code",
                "host.name",
                "joblane.outcome",
                "error.type",
            )
        )
        assert "it is failed" == attempt.error
        assert span_id(job("A"), number) == attempt.span_id
    scene.claim()
    scene.settle(State.DEAD, Outcome.TIMED_OUT, signal=9)
    wait, attempt, whole = scene.spans()
    assert [("wait retry", 4, 5), ("attempt default", 5, 6), ("process default", 0, 6)] == brief(
        [wait, attempt, whole]
    )
    assert 9 == attempt.attributes["joblane.signal"]
    assert "process.exit.code" not in attempt.attributes
    assert ("dead", "it is timed_out") == (whole.attributes["error.type"], whole.error)
    assert [
        ("joblane.retry", NOW_MS + 2000, {"joblane.reason": "it is failed"}),
        ("joblane.retry", NOW_MS + 4000, {"joblane.reason": "it is failed"}),
    ] == [(e.name, e.at_ms, e.attributes) for e in whole.events]


def test_a_lost_agent_ends_its_attempt_when_another_one_takes_over(scene: Scene):
    scene.claim()
    scene.settle(State.RETRY, Outcome.FAILED, exit_code=7)
    scene.claim()
    scene.spans()
    scene.head = scene.at.aws.jobs.take_over(scene.head, "agent-2", scene.later())
    wait, lost = scene.spans()
    assert [("wait retry", 2, 3), ("attempt default", 3, 4)] == brief([wait, lost])
    assert ("lost", "lost", "agent-1") == tuple(
        lost.attributes[name] for name in ("joblane.outcome", "error.type", "host.name")
    )
    # What the attempt before it left in the row is not its own.
    assert "process.exit.code" not in lost.attributes
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED, exit_code=0)
    attempt, whole = scene.spans()
    assert [("attempt default", 4, 5), ("process default", 0, 5)] == brief([attempt, whole])
    assert span_id(job("A"), 3) == attempt.span_id
    assert ["joblane.retry", "joblane.active"] == [each.name for each in whole.events]


def test_a_job_that_never_ran_has_waited_only(scene: Scene):
    scene.move(Event.CANCEL)
    wait, whole = scene.spans()
    assert [("wait pending", 0, 1), ("process default", 0, 1)] == brief([wait, whole])
    assert (None, "cancelled", 0) == (
        whole.error,
        whole.attributes["joblane.job.state"],
        whole.attributes["joblane.job.claims"],
    )


def test_a_job_that_is_refused_at_once_is_one_span():
    scene = Scene()
    step = Step(State.FAILED, NOW_MS, 0, "no agent matches")
    scene.head = replace(scene.head, state=State.FAILED, timeline=(step,))
    scene.put()
    (whole,) = scene.spans()
    assert [("process default", 0, 0)] == brief([whole])
    assert "no agent matches" == whole.error


def test_a_job_that_an_operator_restarts_has_another_span(scene: Scene):
    scene.claim()
    scene.settle(State.DEAD, Outcome.FAILED, exit_code=3)
    first = scene.spans()[-1]
    scene.move(Event.REPLAY)
    assert [] == scene.spans()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    wait, attempt, again = scene.spans()
    assert [
        ("wait pending", 3, 4),
        ("attempt default", 4, 5),
        ("process default again", 3, 5),
    ] == brief([wait, attempt, again])
    assert {first.span_id} == {each.context.parent_id for each in (wait, attempt, again)}
    assert 4 == len({first.span_id, wait.span_id, attempt.span_id, again.span_id})
    assert (False, False) == (again.top, again.remote)


def test_a_dismissed_job_has_ended_before(scene: Scene):
    scene.claim()
    scene.settle(State.DEAD, Outcome.FAILED)
    scene.spans()
    scene.move(Event.DISMISS)
    assert [] == scene.spans()


def test_a_job_that_blocks_again_and_again_has_each_wait(scene: Scene):
    """Its timeline has one line for all blocks."""
    for count in range(4):
        scene.claim()
        step = Step(State.BLOCKED, scene.later(), 0, "no disk")
        scene.head = scene.at.aws.jobs.block(
            scene.head, step, "app:disk", AttemptFacts(Outcome.BLOCKED, exit_code=75)
        )
        *waits, attempt = scene.spans()
        expected = ["wait blocked", "wait pending"] if count else ["wait pending"]
        assert expected == [each.name for each in waits]
        assert (attempt.start_ms, attempt.end_ms) == (scene.now - 1000, scene.now)
        assert waits[-1].end_ms == attempt.start_ms
        assert (75, None) == (attempt.attributes["process.exit.code"], attempt.error)
        free = Step(State.PENDING, scene.later(), 0, "there is disk")
        scene.head = scene.at.aws.jobs.unblock(job("A"), "app:disk", free)
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    *_, whole = scene.spans()
    (event,) = whole.events
    assert ("joblane.blocked", 4) == (event.name, event.attributes["joblane.times"])
    since = "(the last of 4 times since 2027-01-15T08:00:02.000Z)"
    assert f"no disk {since}" == event.attributes["joblane.reason"]


def test_a_folded_timeline_loses_no_attempt(scene: Scene):
    seen: list[Span] = []
    attempts = TIMELINE_LINES
    for _ in range(attempts):
        scene.claim()
        scene.settle(State.RETRY, Outcome.FAILED, exit_code=3)
        seen += scene.spans()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    seen += scene.spans()
    assert len(scene.head.timeline) < 2 * attempts
    of_attempts = [each for each in seen if each.name == "attempt default"]
    assert [n + 1 for n in range(attempts + 1)] == [
        e.attributes["joblane.epoch"] for e in of_attempts
    ]
    waits = [each for each in seen if each.name.startswith("wait ")]
    times = sorted((each.start_ms, each.end_ms) for each in (*of_attempts, *waits))
    assert [NOW_MS + n * 1000 for n in range(2 * attempts + 2)] == [start for start, _ in times]
    assert all(end - start == 1000 for start, end in times)
    assert len({each.span_id for each in seen}) == len(seen)
    times_of = [event.attributes.get("joblane.times", 1) for event in seen[-1].events]
    assert attempts == sum(n for n in times_of if isinstance(n, int))


def test_a_job_that_was_due_later_was_scheduled_first():
    scene = Scene(run_at="2027-01-15T08:00:05Z")
    scene.put()
    scene.now += 4000
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    assert [
        ("wait scheduled", 0, 5),
        ("wait pending", 5, 5),
        ("attempt default", 5, 6),
        ("process default", 0, 6),
    ] == brief(scene.spans())


def test_a_change_that_is_handled_twice_gives_the_same_spans(scene: Scene):
    scene.claim()
    scene.settle(State.DEAD, Outcome.FAILED, exit_code=3)
    records = scene.at.stream.take()
    first, again = ([read_ended(record, 1.0) for record in records] for _ in range(2))
    assert first == again
    (ended,) = (each for each in first if each is not None)
    sent = Ended.model_validate_json(ended.model_dump_json(exclude_defaults=True))
    assert spans(ended) == spans(sent)


def test_a_clock_that_was_set_back_makes_no_negative_span(scene: Scene):
    scene.now -= 60_000
    scene.claim()
    scene.now -= 60_000
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    assert all(each.end_ms >= each.start_ms for each in scene.spans())


def test_a_submission_that_is_elsewhere_gives_its_queue_only():
    scene = Scene(command=["x" * 900])
    scene.put()
    scene.move(Event.CANCEL)
    *_, whole = scene.spans()
    assert "default" == whole.attributes["messaging.destination.name"]
    assert "joblane.job.name" not in whole.attributes


@pytest.mark.parametrize(("before", "after"), sorted({(b, a) for (b, _), a in TABLE.items()}))
def test_every_transition_ends_what_it_should(before: State, after: State):
    """Attempts end when their job is not active any more, jobs when they come to an end."""
    lines = [Step(before, NOW_MS, 1, "x").encode(), Step(after, NOW_MS + 5, 1, "y").encode()]
    claimed = after is State.ACTIVE
    ends = ends_something(before, after, claimed=claimed)
    assert ends == (before is State.ACTIVE or (after in ENDED and before not in ENDED))
    if not ends:
        return
    ended = Ended(
        job_id=JOB,
        tenant="acme",
        queue="default",
        before=before,
        after=after,
        epoch=1,
        attempt=1,
        timeline=tuple(lines),
    )
    kinds = {each.name.split()[0] for each in spans(ended)}
    assert ("attempt" in kinds) == (before is State.ACTIVE)
    assert ("process" in kinds) == (after in ENDED)
    # The members of a group are what happens while it is processing.
    assert ("wait" in kinds) == (before not in {State.ACTIVE, State.PROCESSING})
