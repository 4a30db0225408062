"""When messages are renewed, by the days alone: none is older than SQS keeps it."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ec2_agent.messages import hiding
from joblane.aws.fleet.inboxes import KEPT_S as INBOX_KEPT_S
from joblane.formats.ids import first_id, new_id
from joblane.job.head import DATA_DAYS
from joblane.job.renewal import (
    DAY_S,
    KEPT_S,
    PASS_EVERY_S,
    REPLACE_AFTER_S,
    SPARE_S,
    RenewalPass,
    begin_pass,
    copied_after_s,
    is_data_due,
    is_due,
    next_due,
)
from joblane.state.retention import LOOK_DAYS, Retention
from joblane.testing.memory import sqs

BEGIN_MS = 1_800_000_000_000
DAY_MS = DAY_S * 1000
MINUTE_MS = 60_000

moments = st.integers(min_value=BEGIN_MS, max_value=BEGIN_MS + 100 * DAY_MS)


def test_the_days_are_those_of_agents_lanes_and_inboxes():
    assert (9, 4, 1) == tuple(n / DAY_S for n in (REPLACE_AFTER_S, PASS_EVERY_S, SPARE_S))
    assert KEPT_S == sqs.KEPT_S == INBOX_KEPT_S + 60
    assert hiding.is_worn(1, REPLACE_AFTER_S)
    assert not hiding.is_worn(1, REPLACE_AFTER_S - 1)


@given(
    made=moments,
    first_sent_after=st.integers(min_value=0, max_value=60 * DAY_MS),
    late=st.lists(st.integers(min_value=0, max_value=SPARE_S * 500 - 1), min_size=60, max_size=60),
)
def test_no_two_messages_of_a_job_are_further_apart_than_sqs_keeps_one(
    made: int, first_sent_after: int, late: list[int]
):
    """Wherever passes begin, each late by up to half a day, and as long at work."""
    job, sent = new_id(made, 7), [made + first_sent_after]
    since = BEGIN_MS - 9 * DAY_MS
    for late_ms in late:
        begins = since + PASS_EVERY_S * 1000 + late_ms
        if is_due(job, since, begins):
            sent.append(begins + late_ms)
        since = begins
    renewed = sorted(at for at in sent[1:] if at > sent[0])
    gaps = [b - a for a, b in zip([sent[0], *renewed], [*renewed, since], strict=True)]
    assert max(gaps) < KEPT_S * 1000


@given(
    ages=st.lists(st.integers(min_value=0, max_value=90 * DAY_MS), max_size=60),
    window=st.integers(min_value=MINUTE_MS, max_value=12 * DAY_MS),
    size=st.integers(min_value=1, max_value=7),
)
def test_a_walk_finds_each_job_that_is_due_once_and_skips_the_others(
    ages: list[int], window: int, size: int
):
    now = BEGIN_MS + 100 * DAY_MS
    jobs = sorted({new_id(now - age, 5) for age in ages})
    found, place, read = [], next_due(None, now - window, now), 0
    while True:
        end = bisect_left(jobs, place)
        page = jobs[max(0, end - size) : end][::-1]
        read += len(page)
        found += [job for job in page if is_due(job, now - window, now)]
        if end - size <= 0:
            break
        before, place = place, next_due(page[-1], now - window, now)
        assert place < before
    expected = [job for job in reversed(jobs) if is_due(job, now - window, now)]
    assert expected == found
    assert read <= len(expected) + size * (90 // 9 + 2)  # a page at the end of each window


def test_a_job_is_due_at_multiples_of_nine_days():
    job = first_id(BEGIN_MS)
    due = [
        day
        for day in range(4, 61, 4)
        if is_due(job, BEGIN_MS + (day - 4) * DAY_MS, BEGIN_MS + day * DAY_MS)
    ]
    assert [12, 20, 28, 36, 48, 56] == due
    assert not is_due(job, BEGIN_MS, BEGIN_MS + 9 * DAY_MS - 1)
    assert is_due(job, BEGIN_MS + 9 * DAY_MS - 1, BEGIN_MS + 9 * DAY_MS)
    assert not is_due(job, BEGIN_MS + 9 * DAY_MS, BEGIN_MS + 10 * DAY_MS)
    assert not is_due(job, BEGIN_MS - 90 * DAY_MS, BEGIN_MS + DAY_MS)  # not made yet then


def test_a_pass_begins_each_four_days_and_goes_on_until_it_is_over():
    first = begin_pass(None, BEGIN_MS)
    assert RenewalPass(BEGIN_MS, BEGIN_MS, tenant=None) == first
    later = BEGIN_MS + PASS_EVERY_S * 1000
    assert begin_pass(first, later - 1) is None
    second = begin_pass(first, later)
    assert second is not None
    assert (later, BEGIN_MS) == (second.began_ms, second.since_ms)
    assert second is begin_pass(second, later + 30 * DAY_MS)


@pytest.mark.parametrize(
    ("days", "after"), [(44, 22), (400, 200), (28, 14), (20, 6), (15, 1), (14, 0)]
)
def test_an_object_is_copied_when_half_of_its_days_are_gone(days: int, after: int):
    """And before that if it would not live until the next look."""
    assert after * DAY_S == copied_after_s(days)


@pytest.mark.parametrize("days", [1, 7, 30, 3650])
def test_a_file_lives_from_its_last_submission_to_each_look(days: int):
    stored = Retention(files_days=days).stored_files_days
    assert KEPT_S == LOOK_DAYS * DAY_S
    assert stored * DAY_S >= days * DAY_S + KEPT_S
    assert copied_after_s(stored) + KEPT_S <= stored * DAY_S


def test_a_submission_in_the_table_lives_on_before_half_of_its_days_are_gone():
    job = first_id(BEGIN_MS)
    at = [
        9 * number
        for number in range(1, 100)
        if is_data_due(
            job,
            BEGIN_MS + 9 * number * DAY_MS - 1,
            BEGIN_MS + 9 * number * DAY_MS,
            DATA_DAYS,
        )
    ]
    assert [198, 396, 594, 792] == at


@pytest.mark.parametrize("state", ["completed_days", "failed_days", "dead_days", "other_days"])
def test_no_job_that_has_ended_is_kept_for_longer_than_its_submission(state: str):
    """The last wait may end just before its submission would have begun anew, which a pass does."""
    least = DATA_DAYS - DATA_DAYS // 2 - LOOK_DAYS
    most = 180
    Retention.model_validate({state: most})
    assert most <= least
    with pytest.raises(ValidationError, match=r"less than or equal to 180"):
        Retention.model_validate({state: most + 1})
