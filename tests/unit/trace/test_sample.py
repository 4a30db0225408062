"""Which jobs are in the sample whose spans are exported."""

from dataclasses import replace
from itertools import pairwise

import pytest

from joblane.formats.ids import id_of
from joblane.group.record import MemberOf
from joblane.job.head import make_head
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.trace import in_sample, job_trace, span_id
from tests.support.jobs import JOB, submission
from tests.support.keyed import NOW_MS
from tests.support.span_scene import CALLER, Scene


def made(number: int) -> str:
    """The id of a job whose trace-id ends in so many 64ths of the range."""
    return id_of((1 << 120) | (number << 58))


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.0, 0), (0.25, 16), (0.5, 32), (1.0, 64), (1 / 64, 1)]
)
def test_a_ratio_takes_that_part_of_the_traces(ratio: float, expected: int):
    assert expected == sum(in_sample(made(n), None, ratio) for n in range(64))


def test_a_higher_ratio_takes_the_same_traces_and_more():
    taken = [{n for n in range(64) if in_sample(made(n), None, r / 10)} for r in range(11)]
    assert all(less <= more for less, more in pairwise(taken))


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_a_callers_flag_decides_for_it(ratio: float, flags: int):
    caller = replace(CALLER, flags=flags)
    assert bool(flags & 1) == in_sample(JOB, caller, ratio)


def test_a_member_of_a_group_without_a_caller_is_decided_as_its_group():
    group = make_head(made(10), "acme", submission(), NOW_MS)
    member = replace(
        make_head(JOB, "acme", submission(), NOW_MS),
        caller_trace=group.trace.under(group.span_id),
        member_of=MemberOf(made(10), 0),
    )
    assert [False, True] == [
        in_sample(JOB, member.caller_trace, ratio, [made(10)]) for ratio in (0.1, 0.2)
    ]
    assert in_sample(JOB, member.caller_trace, 0.1)  # as one that the group's job has submitted


@pytest.mark.parametrize("flags", [0, 1])
def test_what_is_not_in_the_sample_is_not_read(flags: int):
    scene = Scene()
    scene.head = replace(scene.head, caller_trace=replace(CALLER, flags=flags))
    scene.put()
    scene.claim()
    scene.settle(State.COMPLETED, Outcome.SUCCEEDED)
    assert flags == len(scene.read(0.0))


def test_a_resubmitted_job_is_decided_as_the_one_that_it_repeats():
    for ratio, expected in ((0.1, 0), (0.2, 1)):
        scene = Scene()
        earlier = job_trace(made(10), None).under(span_id(made(10), 1))
        scene.head = replace(scene.head, caller_trace=earlier, resubmit_of=made(10))
        scene.put()
        scene.move(Event.CANCEL)
        assert expected == len(scene.read(ratio))
