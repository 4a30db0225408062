"""The oldest waiting job of a queue and of a type: right whatever happens, by few reads."""

import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joblane.aws.job.stream import read_record
from joblane.formats.ids import first_id, id_of, number_of, submitted_ms
from joblane.queue.backlog import DUE, Backlog, Load, fold_backlog
from joblane.queue.oldest import LEAST, MOST_ROWS, PAGE, Of, Page, WaitingJob, about, find_oldest
from joblane.queue.submitted import FINE, Span, Submitted, count_submitted, grown_spans, span_of
from joblane.queue.usage import Accounts, Use
from joblane.state.lifecycle import State
from tests.support.depth import budget
from tests.support.job_stream import NOON, Stream, id_of_job

NOW = NOON // 60
DAYS_400 = 400 * 1440
minutes = st.integers(0, DAYS_400).map(lambda age: NOW - age)


@given(minutes, st.integers(0, DAYS_400), st.integers(0, DAYS_400))
def test_a_span_lies_within_the_span_of_any_later_time(minute: int, waits: int, more: int):
    early, late = span_of(minute, minute + waits), span_of(minute, minute + waits + more)
    assert late.start <= early.start <= minute < early.end <= late.end
    assert early == span_of(early.end - 1, minute + waits)  # of each of its minutes
    age = minute + waits + more - late.end
    assert late.level == 0 or age >= FINE * (late.end - late.start)


def test_the_age_of_a_job_is_known_to_the_minute_at_first_and_to_a_quarter_at_last():
    assert {0: 0, 7: 0, 60: 8, 1440: 256, 14 * 1440: 4096} == {
        age: (span := span_of(NOW - age, NOW)).end - span.start if age > 7 else 0
        for age in (0, 7, 60, 1440, 14 * 1440)
    }


@given(st.dictionaries(minutes, st.integers(-300, 10**6)), st.integers(0, 100))
def test_what_is_stored_reads_back(numbers: dict[int, int], later: int):
    found = Submitted()
    for minute, number in numbers.items():
        found = found.plus(Submitted({span_of(minute, NOW): number}))
    assert found == Submitted.decode(found.encode())
    older = found.within(grown_spans(found.by_span, NOW + later))
    assert older == Submitted.decode(older.encode())
    assert sum(found.by_span.values()) == sum(older.by_span.values())


def test_accounts_of_many_queues_and_types_with_jobs_of_every_age_fit_into_an_item():
    """An item holds 400 KB, and accounts are in it three times: 300 names with 15 million jobs."""
    # Spans of more than a week are of hours at least.
    ages = (*range(7 * 1440), *range(7 * 1440, DAYS_400, 30))
    spans = {span_of(NOW - age, NOW) for age in ages}
    assert len(spans) < 90
    text = Submitted(dict.fromkeys(spans, 999)).encode()
    print(f"{len(spans)} spans, {len(text)} bytes")
    assert 3 * 300 * (len(text) + 25) < 390_000


def test_accounts_of_a_day_of_waiting_are_as_large_as_costs_say():
    """Jobs of each minute of a day wait in three queues and of three types."""
    spans = {span_of(NOW - age, NOW) for age in range(1440)}
    key, jobs = Load(9999, 9999), Submitted(dict.fromkeys(spans, 40))
    names = [f"{kind}N3f_8{n}" for kind in "qt" for n in range(3)]
    size = len(Backlog(dict.fromkeys(names, key), dict.fromkeys(names, jobs)).encode())
    print(f"{3 * size} bytes")
    assert 2048 < 3 * size < 3 * 1024


@dataclass
class Row:
    """A job as its row has it."""

    state: State
    queue: str
    type: str
    listed: bool = True


class Table:
    """The jobs of a tenant by id, and how many were read."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._ids = sorted(job_id for job_id, row in rows.items() if row.listed)
        self._rows = rows
        self.reads: list[int] = []

    def page(self, first: str, last: str) -> Page:
        """Read a page of ids and their rows."""
        start = bisect_left(self._ids, first)
        ids = [job_id for job_id in self._ids[start : start + PAGE] if job_id <= last]
        found = ((job_id, self._rows[job_id]) for job_id in ids)
        waiting = [WaitingJob(job, row.queue, row.type) for job, row in found if row.state in DUE]
        self.reads.append(len(ids))
        return Page(waiting, len(ids), ids[-1] if len(ids) == PAGE else None)


def look_at_all(rows: Mapping[str, Row]) -> dict[Of, str]:
    """The oldest of each queue and type by brute force."""
    found: dict[Of, str] = {}
    for job_id, row in sorted(rows.items()):
        if row.listed and row.state in DUE:
            found.setdefault(("queue", row.queue), job_id)
            found.setdefault(("type", row.type), job_id)
    return found


NAMES: list[Of] = [
    *(("queue", name) for name in ("default", "bulk", "slow")),
    *(("type", name) for name in ("command", "sync")),
]


def due(backlog: Backlog) -> dict[Of, Submitted]:
    return {
        (kind, name): backlog.due_in_queue(name) if kind == "queue" else backlog.due_of_type(name)
        for kind, name in NAMES
    }


class History:
    """Jobs of a tenant, and of another on the same queues, to which everything may happen."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = NOON
        self.rows: dict[str, Row] = {}
        self._stream = Stream()
        self._submitted: dict[str, tuple[int, str]] = {}
        self._counted: dict[int, Use] = {}
        self.accounts = Accounts.new(NOW)

    def run(self) -> Iterator[None]:
        """Let something happen, and count it; gives after each count."""
        step_s = self.rng.choice((5, 60, 3600, 86_400))
        most = self.rng.choice((5, 40))
        for _ in range(self.rng.randrange(1, 25)):
            batch = [self._happen(most) for _ in range(self.rng.randrange(1, 12))]
            changes = [change for record in batch if (change := read_record(record))]
            for (tenant, minute), (_, backlog) in fold_backlog(changes).items():
                if tenant == "acme":
                    stored = Backlog.decode(backlog.encode())
                    self._counted.setdefault(minute, Use()).add(Use(backlog=stored))
            self._count()
            yield
            self.now += self.rng.randrange(step_s)

    def _count(self) -> None:
        now = self.now // 60
        accounts = self.accounts.at(now)
        since = accounts.since(now, now)
        read = {minute: use for minute, use in self._counted.items() if minute >= since}
        self.accounts = accounts.count(read, since, self.now * 1000)

    def _happen(self, most: int) -> dict[str, object]:
        """A job is submitted, or moves, waits, runs, ends or is deleted."""
        name = f"j{self.rng.randrange(most)}"
        tenant = "other" if name.endswith("3") else "acme"
        if name not in self._submitted:
            earlier = self.rng.choice((0, 0, 0, 2))  # seconds between its id and its row
            self._submitted[name] = (self.now - earlier, self.rng.choice(("command", "sync")))
        at, kind = self._submitted[name]
        job_id = id_of_job(name, at)
        old = self.rows.get(job_id)
        if old is not None and self.rng.random() < 0.1:
            self.rows.pop(job_id)
            del self._submitted[name]  # its next one has another id
            return self._stream.write(name, None, self.now, tenant, submitted=at)
        state = self.rng.choice([*State, *DUE])
        queue = self.rng.choice(("default", "bulk", "slow"))
        self.rows[job_id] = Row(state, queue, kind)
        typed: dict[str, Any] = {"command": (), "type": kind, "params": {}}
        fields = {} if kind == "command" else typed
        return self._stream.write(
            name, state, self.now, tenant, submitted=at, queue=queue, **fields
        )

    def of_tenant(self) -> dict[str, Row]:
        """What its list shows."""
        others = {
            id_of_job(name, at) for name, (at, _) in self._submitted.items() if name.endswith("3")
        }
        return {job_id: row for job_id, row in self.rows.items() if job_id not in others}


@given(seed=st.integers(0, 10**6))
@settings(max_examples=budget(40, 2000))
def test_the_oldest_job_is_the_one_that_a_look_at_all_rows_finds(seed: int):
    history = History(seed)
    for _ in history.run():
        rows = history.of_tenant()
        table = Table(rows)
        wanted = due(history.accounts.jobs.present.backlog)
        expected = look_at_all(rows)
        found = find_oldest(wanted, table.page)
        assert expected == {of: oldest.job_id for of, oldest in found.items()}
        # What the counts alone say has it in its bounds.
        for of in NAMES:
            counted = about(wanted[of])
            assert (of in expected) is (counted is not None)
            if counted is not None:
                assert counted.earliest_ms <= submitted_ms(expected[of]) <= counted.latest_ms


def a_span_with(rows: int, start: int = NOW - 1440) -> tuple[Span, dict[str, Row]]:
    """A span of a day ago, and so many jobs in it that have ended."""
    span = span_of(start, NOW)
    first = number_of(first_id(span.start * 60_000))
    ended = Row(State.COMPLETED, "default", "command")
    return span, {id_of(first + n): ended for n in range(rows)}


@pytest.mark.parametrize("number", [0, 99, 100, 499, 500])
def test_of_many_jobs_the_first_that_waits_is_found(number: int):
    span, rows = a_span_with(5000)
    job_id = sorted(rows)[number]
    rows[job_id] = Row(State.RETRY, "default", "command")
    table = Table(rows)
    found = find_oldest({("queue", "default"): Submitted({span: 1})}, table.page)
    assert sum(table.reads) <= MOST_ROWS
    oldest = found["queue", "default"]
    if number < MOST_ROWS:
        assert (job_id, submitted_ms(job_id)) == (oldest.job_id, oldest.earliest_ms)
    else:
        assert (None, span.end * 60_000 - 1) == (oldest.job_id, oldest.latest_ms)
        assert oldest.earliest_ms == submitted_ms(sorted(rows)[MOST_ROWS - 1])


def test_those_whose_spans_were_not_read_have_an_age_and_no_id():
    span, rows = a_span_with(5000)
    later = Span(NOW, 0)
    rows[first_id(NOW * 60_000)] = Row(State.PENDING, "bulk", "command")
    wanted: dict[Of, Submitted] = {
        ("queue", "default"): Submitted({span: 1}),
        ("queue", "bulk"): Submitted({later: 1}),
    }
    found = find_oldest(wanted, Table(rows).page)
    assert [None, None] == [oldest.job_id for oldest in found.values()]
    assert NOW * 60_000 == found["queue", "bulk"].earliest_ms


def test_counts_that_a_lost_change_left_behind_hide_no_job():
    """Nothing waits in the oldest span any more: the next one has the job."""
    span, rows = a_span_with(30)
    job_id = first_id(NOW * 60_000)
    rows[job_id] = Row(State.BLOCKED, "default", "command")
    wanted: dict[Of, Submitted] = {("queue", "default"): Submitted({span: 2, Span(NOW, 0): 1})}
    assert job_id == find_oldest(wanted, Table(rows).page)["queue", "default"].job_id
    del rows[job_id]
    assert {} == find_oldest(wanted, Table(rows).page)


def test_many_spans_without_rows_are_few_reads():
    spans = {span_of(NOW - age, NOW): 1 for age in range(0, DAYS_400, 7)}
    table = Table({})
    found = find_oldest({("queue", "default"): Submitted(spans)}, table.page)
    assert len(table.reads) == (MOST_ROWS - PAGE) // LEAST + 1 < len(spans)
    assert found["queue", "default"].job_id is None


def test_jobs_are_left_out_that_wait_for_their_time_or_belong_to_a_group():
    stream = Stream()
    records = [stream.write("a", State.SCHEDULED), stream.write("b", State.PENDING)]
    member = stream.write("c", State.PENDING)
    member["dynamodb"]["NewImage"]["of"] = member["dynamodb"]["NewImage"].pop("tenant")
    changes = [change for record in [*records, member] if (change := read_record(record))]
    ((_, backlog),) = fold_backlog(changes).values()
    assert 3 == backlog.queue("default").waiting
    assert count_submitted([(NOW, 1)], NOW) == backlog.due_in_queue("default")
    released = read_record(stream.write("a", State.PENDING))
    assert released is not None
    ((_, more),) = fold_backlog([released]).values()
    assert Submitted({Span(NOW, 0): 2}) == backlog.plus(more).due_in_queue("default")
