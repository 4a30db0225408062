"""Figures of tenants: exact when batches come again, late, or split, and when a call dies."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.aws.queue.usage import UsageStore
from joblane.contract.problems import TryAgain
from joblane.deployment.limits import TenantLimits
from joblane.deployment.names import table_name
from joblane.errors import Changed
from joblane.queue.usage import (
    MEBIBYTE,
    OPEN_MINUTES,
    RESETTLE,
    Account,
    Excess,
    Figures,
    Use,
    excess,
    room,
)
from joblane.service.queue.count import Counting
from joblane.state.lifecycle import State
from tests.support.aws import NAME, Cloud
from tests.support.job_stream import NOON, Stream

NOON_MS = NOON * 1000
MINUTE = NOON // 60
DAY = NOON // 86_400


def figures(usage: UsageStore, tenant: str = "acme") -> Figures:
    accounts, _ = usage.accounts(tenant)
    assert accounts is not None
    return accounts.figures.present


def test_a_batch_that_comes_twice_counts_once(projector: Counting, usage: UsageStore) -> None:
    stream = Stream()
    batch = [stream.write(f"j{n}", State.PENDING) for n in range(5)]
    batch.append(stream.write("j0", State.ACTIVE))
    for _ in range(2):
        projector.handle(batch)
        assert 4 == figures(usage).waiting


def test_a_batch_that_comes_again_in_two_parts_counts_once(projector: Counting, usage: UsageStore):
    stream = Stream()
    batch = [stream.write(f"j{n}", State.PENDING) for n in range(5)]
    batch += [stream.write(f"j{n}", None) for n in range(5)]
    for part in (batch[:5], batch, batch[:7], batch[7:]):
        projector.handle(part)
    assert 0 == figures(usage).waiting


def test_a_call_that_dies_before_the_figures_are_stored_is_made_good_by_the_next(
    projector: Counting, usage: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream()
    batch = [stream.write(f"j{n}", State.PENDING) for n in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(UsageStore, "store", _die)
        with pytest.raises(KeyboardInterrupt):
            projector.handle(batch)
    projector.handle([stream.write("k", State.PENDING)])
    assert 4 == figures(usage).waiting
    projector.handle(batch)
    assert 4 == figures(usage).waiting


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_batch_that_is_an_hour_late_counts(
    projector: Counting, usage: UsageStore, now: list[int]
) -> None:
    stream = Stream()
    late = [stream.write(f"j{n}", State.PENDING, NOON, output=MEBIBYTE) for n in range(3)]
    for _ in range(12):  # others come in time
        now[0] += 300
        projector.handle([stream.write(f"k{now[0]}", State.PENDING, now[0])])
    projector.handle(late)
    assert Figures(15, DAY, 3 * MEBIBYTE) == figures(usage)


def test_of_two_projectors_the_one_that_read_less_counts_again(
    projector: Counting, usage: UsageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream()
    projector.handle([stream.write("before", State.PENDING)])
    first, second = (stream.write(job, State.PENDING) for job in ("a", "b"))
    minutes, others = UsageStore.minutes, [second]

    def read_then_wait(store: UsageStore, tenant: str, since: int) -> dict[int, Use]:
        found = minutes(store, tenant, since)
        if others:
            projector.handle([others.pop()])
        return found

    monkeypatch.setattr(UsageStore, "minutes", read_then_wait)
    projector.handle([first])
    assert 3 == figures(usage).waiting


def test_a_projector_that_never_comes_first_fails_so_that_the_batch_comes_again(
    projector: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise Changed

    monkeypatch.setattr(UsageStore, "store", refused)
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)
    with pytest.raises(TryAgain):
        projector.handle([Stream().write("a", State.PENDING)])


def test_jobs_from_before_the_first_count_make_no_debt(
    projector: Counting, usage: UsageStore, now: list[int]
) -> None:
    """Ten jobs start that were never counted: new ones count in full once that is closed."""
    stream = Stream()
    for n in range(10):
        stream.write(f"old{n}", State.PENDING)
    projector.handle([stream.write(f"old{n}", State.ACTIVE) for n in range(10)])
    assert 0 == figures(usage).waiting
    for _ in range(3):
        now[0] += OPEN_MINUTES * 60
        projector.handle([stream.write(f"new{now[0]}", State.PENDING, now[0])])
    assert 3 == figures(usage).waiting


def test_what_was_counted_stays_after_the_counts_of_its_minutes_have_expired(
    projector: Counting, usage: UsageStore, now: list[int], aws: Cloud
) -> None:
    stream = Stream()
    projector.handle([stream.write(f"j{n}", State.PENDING) for n in range(4)])
    table = table_name(NAME, "counters")
    aws.clients.make("dynamodb").delete_item(
        TableName=table, Key={"series": {"S": "acme"}, "at_minute": {"N": str(MINUTE)}}
    )
    now[0] += 5 * 3600
    projector.handle([stream.write("late", State.PENDING, now[0])])
    assert 5 == figures(usage).waiting


def test_output_counts_for_the_day_of_its_attempts_end(
    projector: Counting, usage: UsageStore, now: list[int]
) -> None:
    stream, midnight = Stream(), (DAY + 1) * 86_400
    stream.write("a", State.ACTIVE)
    projector.handle([stream.write("a", State.RETRY, output=MEBIBYTE)])
    projector.handle([stream.write("a", State.ACTIVE, output=MEBIBYTE)])
    projector.handle([stream.write("a", State.COMPLETED, output=3 * MEBIBYTE)])
    assert Figures(0, DAY, 3 * MEBIBYTE) == figures(usage)
    now[0] = midnight + 60
    assert 0 == figures(usage).output_mb(now[0] * 1000)
    stream.write("b", State.ACTIVE)
    projector.handle([stream.write("b", State.FAILED, midnight + 30, output=2 * MEBIBYTE)])
    assert Figures(0, DAY + 1, 2 * MEBIBYTE) == figures(usage)


def test_output_files_count_as_output_does(projector: Counting, usage: UsageStore, now: list[int]):
    stream = Stream()
    stream.write("a", State.ACTIVE)
    projector.handle([stream.write("a", State.RETRY, output=1, files=2 * MEBIBYTE)])
    projector.handle([stream.write("a", State.ACTIVE, output=1, files=2 * MEBIBYTE)])
    again = stream.write("a", State.COMPLETED, output=1, files=5 * MEBIBYTE)
    for _ in range(2):
        projector.handle([again])
    assert Figures(0, DAY, 1, 5 * MEBIBYTE) == figures(usage)
    assert 5 == figures(usage).file_mb(now[0] * 1000)
    assert 0 == figures(usage).file_mb(now[0] * 1000 + 86_400_000)


def test_a_tenants_figures_are_its_own(projector: Counting, usage: UsageStore) -> None:
    stream = Stream()
    projector.handle(
        [
            stream.write("a", State.PENDING),
            stream.write("b", State.SCHEDULED, tenant="other"),
            stream.write("c", State.PENDING, tenant="other"),
        ]
    )
    assert (1, 2) == (figures(usage).waiting, figures(usage, "other").waiting)


def test_a_count_costs_the_same_however_many_jobs_there_were(
    projector: Counting, usage: UsageStore, now: list[int]
) -> None:
    stream = Stream()
    for n in range(2 * OPEN_MINUTES):
        projector.handle([stream.write(f"j{n}", State.PENDING, now[0])])
        now[0] += 60
    accounts, _ = usage.accounts("acme")
    assert accounts is not None
    assert 2 * OPEN_MINUTES == accounts.figures.present.waiting
    assert {State.PENDING: 2 * OPEN_MINUTES} == accounts.jobs.present.counts.by_state()
    since = accounts.since(0, accounts.figures.at_minute)
    assert OPEN_MINUTES + RESETTLE + 1 >= len(usage.minutes("acme", since))


def deliveries(batches: int, rng: random.Random) -> Iterator[int]:
    """Each batch once at least, some again, in an order that is off by some places."""
    order = [n for n in range(batches) for _ in range(rng.choice((1, 1, 2)))]
    yield from sorted(order, key=lambda n: n + rng.uniform(0, 3))


@given(seed=st.integers(0, 10_000))
def test_whatever_the_order_the_figures_are_those_of_all_changes(seed: int) -> None:
    rng = random.Random(seed)
    account, stored = Account.new(Figures(), MINUTE), dict[int, dict[int, Use]]()
    batches = [
        (
            MINUTE + 20 * n + rng.randrange(20),
            Use(rng.randrange(9), rng.randrange(99), rng.randrange(999)),
        )
        for n in range(rng.randrange(1, 20))
    ]
    for n in deliveries(len(batches), rng):
        minute, use = batches[n]
        stored.setdefault(minute, {})[n] = use
        now = max(account.at_minute, minute)
        account = account.at(now)
        minutes = {m: _sum(uses) for m, uses in stored.items() if m > account.closed_minute}
        account = account.count(minutes, now)
    assert sum(use.waiting for _, use in batches) == account.present.waiting
    today = max(minute for minute, _ in batches) // 1440
    output = sum(use.output_bytes for minute, use in batches if minute // 1440 == today)
    assert (today, output) == (account.present.day, account.present.output_bytes)
    files = sum(use.file_bytes for minute, use in batches if minute // 1440 == today)
    assert files == account.present.file_bytes


def _sum(uses: dict[int, Use]) -> Use:
    total = Use()
    for use in uses.values():
        total.add(use)
    return total


def test_the_last_job_that_a_limit_allows_is_accepted_and_no_other() -> None:
    limits = TenantLimits(jobs_waiting=10)
    assert [10, 1, 0, 0] == [room(limits, Figures(n), NOON_MS) for n in (0, 9, 10, 11)]
    assert excess(limits, Figures(9), NOON_MS) is None
    reached = excess(limits, Figures(12), NOON_MS)
    assert Excess("jobs_waiting", 10, 12, NOON_MS + 10_000) == reached


def test_a_day_of_output_is_over_at_midnight() -> None:
    limits = TenantLimits(output_mb_per_day=5)
    used = Figures(0, DAY, 5 * MEBIBYTE)
    midnight_ms = (DAY + 1) * 86_400_000
    assert Excess("output_mb_per_day", 5, 5, midnight_ms) == excess(limits, used, NOON_MS)
    assert 0 == room(limits, used, midnight_ms - 1)
    assert excess(limits, used, midnight_ms) is None
    assert excess(limits, replace(used, output_bytes=5 * MEBIBYTE - 1), NOON_MS) is None
