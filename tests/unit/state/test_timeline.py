"""A timeline has a bounded size, and readers find in it what they would in the whole one."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from joblane.job.blocked import waiting_job
from joblane.job.head import Head, make_head, with_step
from joblane.job.moves import plan
from joblane.job.output import epoch_end
from joblane.state.lifecycle import CLAIMABLE, ENDED, TABLE, Event, State
from joblane.state.timeline import TIMELINE_LINES as MOST
from joblane.state.timeline import Step, first_start, fold, versions_at
from tests.support.aws import Cloud
from tests.support.jobs import JOB, named, submission

ENDS = [
    state
    for (source, event), state in TABLE.items()
    if source is State.ACTIVE and event is not Event.TAKE_OVER
]
HISTORIES = st.lists(st.tuples(st.sampled_from(ENDS), st.none() | st.integers(0, 3)), max_size=150)


def lived(history: list[tuple[State, int | None]]) -> tuple[Head, Head]:
    """Apply the ends of attempts as the store does; a job that cannot be claimed is let go on.

    Returns the job, and the same job with its whole timeline.
    """
    head = whole = make_head(JOB, "acme", submission(), 0)

    def add(step: Step, *, ends: bool = False) -> None:
        nonlocal head, whole
        if ends:
            head = with_step(head, step)
        else:
            head = replace(head, state=step.state, timeline=(*head.timeline, step))
        whole = replace(whole, state=step.state, timeline=(*whole.timeline, step))

    attempt, now = 0, 0
    for state, records in history:
        if head.state not in CLAIMABLE:
            now += 1
            add(Step(State.PENDING, now, 0, "again"))
        attempt += 1
        add(Step(State.ACTIVE, now + 1, attempt, "claimed", "agent-1"))
        now += 2
        attempt -= state in {State.PENDING, State.BLOCKED}
        add(Step(state, now, attempt, "because", records=records), ends=True)
    return head, whole


@given(HISTORIES)
def test_a_job_that_never_stops_changing_has_a_short_timeline(
    history: list[tuple[State, int | None]],
):
    head, whole = lived(history)
    assert len(head.timeline) <= MOST + 2
    assert head.timeline[0] == whole.timeline[0]
    for epoch in range(1, len(history) + 1):
        short, true = epoch_end(head, epoch), epoch_end(whole, epoch)
        assert short is not None
        assert true is not None
        assert short.records in {true.records, None}
        assert short.at_ms >= true.at_ms
    assert epoch_end(head, len(history) + 1) is None
    if head.state is State.BLOCKED:
        assert waiting_job(whole) == waiting_job(head)


RARELY_ENDED = st.lists(
    st.tuples(st.sampled_from([*[State.RETRY] * 30, State.BLOCKED, State.DEAD]), st.just(1)),
    max_size=120,
)


@given(HISTORIES | RARELY_ENDED)
@example([(State.RETRY, 1)] * 9 + [(State.DEAD, 1)] + [(State.RETRY, 1)] * 40)
def test_the_first_start_since_the_last_restart_stays(history: list[tuple[State, int | None]]):
    head, whole = lived(history)
    assert first_start(whole.timeline) == first_start(head.timeline)
    *before, last = whole.timeline
    if last.state in ENDED:  # restarted: nothing has started since
        again = (*head.timeline, Step(State.PENDING, last.at_ms + 1, 0, "retried"))
        assert first_start(fold(again)) is None
    elif State.ACTIVE in {step.state for step in before}:
        assert first_start(head.timeline) is not None


@given(HISTORIES)
def test_folding_again_changes_nothing(history: list[tuple[State, int | None]]):
    _, whole = lived(history)
    once = fold(whole.timeline)
    assert once == fold(once)


def test_the_first_and_the_last_attempts_stay_and_the_others_are_counted():
    head, whole = lived([(State.RETRY, 2)] * 60)
    assert whole.timeline[:4] == head.timeline[:4]
    assert whole.timeline[-24:] == head.timeline[-24:]
    (stands,) = [step for step in head.timeline if step.times > 1]
    assert len([step for step in head.timeline if step.state is State.ACTIVE]) + stands.times == 61
    assert f"because (the last of {stands.times} times since 1970-" in stands.full_reason
    ends = [epoch_end(head, epoch) for epoch in range(1, 61)]
    assert [*range(1, 61)] == [end.attempt for end in ends if end is not None]


def test_a_job_that_is_replayed_for_ever_has_a_short_timeline(aws: Cloud):
    """Without a claim in between: agents end attempts, and nothing else may lengthen a head."""
    head = make_head(JOB, "acme", submission(), 0)
    aws.jobs.put_new(head)
    for now in range(1, 100):
        for event in (Event.EXHAUST, Event.REPLAY):
            step = plan(head, event, now, "again")
            head = aws.jobs.move(head, event, step)
            assert head == aws.jobs.get(JOB)
    assert len(head.timeline) <= MOST
    claimed = aws.jobs.claim(named(JOB), "agent-1", 200)
    assert epoch_end(claimed, 1) is None


@given(HISTORIES | RARELY_ENDED, st.data())
def test_each_line_that_is_left_tells_the_version_of_its_attempt(
    history: list[tuple[State, int | None]], data: st.DataObject
):
    """Also after it was folded, and read back."""
    _, whole = lived(history)
    restarts = [
        n for n, step in enumerate(whole.timeline[1:], 1) if whole.timeline[n - 1].state in ENDED
    ]
    chosen = data.draw(st.sets(st.sampled_from(restarts))) if restarts else set[int]()
    numbers = {n: number for number, n in enumerate(sorted(chosen), 1)}
    steps = tuple(
        replace(step, from_version=numbers.get(n)) for n, step in enumerate(whole.timeline)
    )
    latest = len(numbers) + 1
    true = {
        (step.at_ms, step.state): version
        for step, version in zip(steps, versions_at(steps, latest), strict=True)
    }
    left = tuple(Step.decode(step.encode()) for step in fold(steps))
    for step, version in zip(left, versions_at(left, latest), strict=True):
        assert true[step.at_ms, step.state] == version
