"""Arrays of which all members fail: how many run, what the group says, and its retry."""

from typing import Any

import pytest

from joblane.job.head import Head
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR
from tests.support.broadcast import Broadcast
from tests.support.depth import DEEP, budget
from tests.unit.group.test_arrays import sent, show

FAILURES = 4


def run_all(at: Broadcast, state: State, at_once: int = 3) -> int:
    """Agents run all that is sent, and what follows from it; returns how many members that were."""
    ran = 0
    while jobs := [member(at.aws.job(job_id)) for job_id in sent(at)]:
        for start in range(0, len(jobs), at_once):
            for index in jobs[start : start + at_once]:
                at.end(index, state)
            at.deliver()
        ran += len(jobs)
    return ran


def member(job: Head) -> int:
    """The number of a member."""
    assert job.member_of is not None
    return job.member_of.index


def rows(at: Broadcast) -> int:
    """How many jobs have rows, without the group's."""
    return sum(sk == "JOB" for _, sk in at.memory.tables.rows[DESCRIPTOR.jobs_table]) - 1


@pytest.mark.parametrize(
    ("members", "limit"), [(24, 4), (24, 16), *([(2_000, None), (10_000, None)] if DEEP else [])]
)
def test_no_more_begin_than_may_run_at_once_and_may_fail(members: int, limit: int | None):
    """Without a limit, a large array has one of 1,000."""
    most: dict[str, Any] = {} if limit is None else {"max_concurrency": limit}
    at = Broadcast(1, array={"size": members}, max_failures=FAILURES, **most)
    ran = run_all(at, State.DEAD)
    assert FAILURES < ran <= FAILURES + (limit or 1_000)
    assert (ran, ran) == (at.group().begun, rows(at)), "what has not begun has no row"
    assert "failed" == at.head.state
    assert f"max_failures is {FAILURES}" in at.head.reason
    shown = show(at)
    assert {"dead": ran, "skipped": members - ran} == shown["counts"]
    assert f"0-{ran - 1}" == shown["failed_indices"]
    at.sweep("retry")
    assert "processing" == at.head.state
    assert (limit or 1_000) == len(at.group().open), "a retry keeps to the limit"
    assert members == run_all(at, State.COMPLETED), "those that failed, and those that were skipped"
    assert (State.COMPLETED, {"completed": members}) == (at.head.state, show(at)["counts"])


def test_without_max_failures_all_run_fail_and_are_retried():
    members = budget(20, 500)
    at = Broadcast(1, array={"size": members}, max_concurrency=8)
    for attempt in range(2):
        if attempt:
            assert members == sum(answer["retried"] for answer in at.sweep("retry"))
        assert members == run_all(at, State.DEAD)
        assert (State.FAILED, f"0 of {members} completed; {members} dead") == (
            at.head.state,
            at.head.reason,
        )
        shown = show(at)
        assert ({"dead": members}, f"0-{members - 1}") == (
            shown["counts"],
            shown["failed_indices"],
        )
