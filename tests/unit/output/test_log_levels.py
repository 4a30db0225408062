"""Reading the log records of a level and above, and no other output."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from aws_lambda_powertools.logging import Logger
from hypothesis import given
from hypothesis import strategies as st

from functions.submission.handler import Settings, build
from joblane.aws.job.output_store import OutputRead, OutputStore, Read
from joblane.formats.levels import LEVELS, Level, reaches
from joblane.job.chunk import Chunk
from joblane.job.head import Head, make_head, with_step
from joblane.job.output import Cursor, LogRecord, OutputRecord, stream_name
from joblane.service.output.pages import CALLS_A_PAGE, PAGE_BYTES, log_page
from joblane.service.output.read import JobOutput, Tail
from joblane.service.output.tail import SIFTED_BYTES, tail_start
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from tests.support.aws import Cloud, configure
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW = int(time.time() * 1000) - 60_000
STREAM = stream_name("acme", JOB, 1)

Said = tuple[Level | None, bytes]


def records(said: Sequence[Said]) -> list[OutputRecord]:
    return [OutputRecord(n, "stderr", NOW, data, level) for n, (level, data) in enumerate(said, 1)]


def job(count: int | None = None) -> Head:
    """A job that runs, or has written so many records."""
    head = make_head(JOB, "acme", submission(), NOW)
    head = with_step(head, Step(State.ACTIVE, NOW, 1, "claimed", "agent-1"))
    head = replace(head, epoch=1)
    if count is None:
        return head
    return with_step(head, Step(State.COMPLETED, NOW, 1, "exit code 0", records=count))


class Stored(OutputStore):
    """One attempt's output in memory, in chunks of three records."""

    def __init__(self, said: Sequence[Said]) -> None:
        self.records = records(said)
        self.reads = 0

    def read(self, _stream: str, seq: int, _at: int, limit: int, room: int) -> OutputRead:
        """See OutputStore."""
        self.reads += 1
        entries, size = list[Read](), 0
        for record in self.records[seq:]:
            if len(entries) == limit or (entries and size + len(record.data) > room):
                return OutputRead(entries, record.seq, size, more=True)
            size += len(record.data)
            entries.append(Read(record, record.seq + 1))
        return OutputRead(entries, len(self.records) + 1, size, more=False)

    def backwards(self, _stream: str) -> Iterator[tuple[int, list[OutputRecord]]]:
        """See OutputStore."""
        for first in range((len(self.records) - 1) // 3 * 3, -1, -3):
            yield first + 1, self.records[first : first + 3]


def read_on(
    store: OutputStore, head: Head, level: Level, limit: int, cursor: Cursor, cut: int = 0
) -> list[LogRecord]:
    """Read pages until the output is complete."""
    found: list[LogRecord] = []
    while True:
        page = log_page(store, head, cursor, limit=limit, now_ms=NOW, cut=cut, level=level)
        assert len(page.records) <= limit
        found += page.records
        if page.complete:
            return found
        assert page.more
        assert page.cursor != cursor
        cursor, cut = page.cursor, 0


SAID = st.lists(
    st.tuples(
        st.sampled_from([None, *LEVELS]), st.sampled_from([b"a\n", b"b\nc\n", b"d", b"\n", b"e\nf"])
    ),
    max_size=14,
)


@given(SAID, st.sampled_from(LEVELS), st.integers(1, 4))
def test_pages_have_the_records_of_the_level_and_above_once(
    said: list[Said], level: Level, limit: int
):
    found = read_on(Stored(said), job(len(said)), level, limit, Cursor())
    wanted = [n for n, (each, _) in enumerate(said, 1) if reaches(each, level)]
    assert wanted == [record.seq for record in found]


@given(SAID, st.sampled_from(LEVELS), st.integers(1, 6))
def test_a_tail_has_the_last_lines_of_the_level_and_above(
    said: list[Said], level: Level, lines: int
):
    store, head = Stored(said), job(len(said))
    start = tail_start(store, head, lines, level)
    found = read_on(store, head, level, 100, start.cursor, start.cut)
    wanted = b"".join(data for each, data in said if reaches(each, level))
    assert b"".join(wanted.splitlines(keepends=True)[-lines:]).decode() == "".join(
        record.text or "" for record in found
    )


@pytest.mark.parametrize(
    ("level", "least", "is_there"),
    [
        ("warning", "warning", 1),
        ("error", "warning", 1),
        ("info", "warning", 0),
        (None, "debug", 0),
    ],
)
def test_levels_are_ordered_and_no_level_is_below_all(
    level: Level | None, least: Level, is_there: int
):
    assert is_there == reaches(level, least)


PRINTED: Said = (None, bytes(32_000))


def test_a_page_examines_a_bounded_part_of_the_output_and_goes_on():
    count = 2 * SIFTED_BYTES // 32_000
    store, head = Stored([PRINTED] * count + [("error", b"at the end\n")]), job(count + 1)
    page = log_page(store, head, Cursor(), limit=1, now_ms=NOW, level="error")
    assert ([], True, False) == (page.records, page.more, page.complete)
    assert CALLS_A_PAGE == store.reads
    assert CALLS_A_PAGE * (PAGE_BYTES - 32_000) < page.cursor.seq * 32_000 <= SIFTED_BYTES
    assert [count + 1] == [each.seq for each in read_on(store, head, "error", 9, page.cursor)]


def test_a_page_of_records_that_all_have_the_level_is_no_larger():
    store = Stored([("error", bytes(32_000))] * 60)
    page = log_page(store, job(60), Cursor(), limit=100, now_ms=NOW, level="debug")
    assert (PAGE_BYTES // 32_000, True) == (len(page.records), page.more)
    assert page.cursor.seq == len(page.records)


def test_a_tail_passes_over_a_bounded_part_of_the_output():
    """What is older is not the tail, although there is nothing of the level after it."""
    count = 2 * SIFTED_BYTES // 32_000
    store, head = Stored([("error", b"long ago\n"), *[PRINTED] * count]), job(count + 1)
    start = tail_start(store, head, 5, "error")
    assert SIFTED_BYTES < (count + 1 - start.cursor.seq) * 32_000 < SIFTED_BYTES + 4 * 32_000
    assert [] == read_on(store, head, "error", 9, start.cursor)


# --- the API

SAID_BY_ONE: list[Said] = [
    (None, b"printed\n"),
    ("info", b"INFO begun\n"),
    ("warning", b"WARNING slow\n"),
    ("error", b"ERROR down\n"),
]


@pytest.fixture(name="running")
def _running(aws: Cloud) -> Head:
    aws.jobs.put_new(make_head(JOB, "acme", submission(), NOW))
    aws.output.write(STREAM, Chunk.of(records(SAID_BY_ONE)))
    return aws.jobs.claim(named(JOB), "agent-1", NOW)


@pytest.fixture(name="api")
def _api(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


@pytest.mark.usefixtures("running")
def test_the_api_answers_levels_and_takes_one(api: Api):
    path = f"/v1/jobs/{JOB}/logs"
    _, everything = api("GET", path)
    assert [None, "info", "warning", "error"] == [
        entry.get("level") for entry in everything["entries"]
    ]
    for query in ({}, {"tail": "2"}, {"limit": "2"}):
        _, page = api("GET", path, query={"level": "warning", **query})
        assert ["warning", "error"] == [entry["level"] for entry in page["entries"]]
    _, page = api("GET", path, query={"level": "debug", "tail": "1"})
    assert ["ERROR down\n"] == [entry["text"] for entry in page["entries"]]


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("level", ["warn", "WARNING", "", "30", "all"])
def test_a_wrong_level_is_refused_naming_the_allowed(api: Api, level: str):
    status, problem = api("GET", f"/v1/jobs/{JOB}/logs", query={"level": level})
    (error,) = problem["errors"]
    assert (400, "level") == (status, error["field"])
    assert all(each in error["problem"] for each in LEVELS)


def test_events_of_a_level_go_on_behind_what_they_leave_out(aws: Cloud, running: Head):
    output = JobOutput(
        aws.jobs, aws.output, time.time, Logger(), lambda _: 0, lambda _: None, lambda _: None
    )
    first = output.events(running, Tail(1), 100, "error")
    assert 1 == first.count("data: ")
    assert "ERROR down" in first
    more = [OutputRecord(5, "stderr", NOW, b"printed\n")]
    aws.output.write(STREAM, Chunk.of(more))
    quiet = output.events(running, Cursor(1, 4, 5), 100, "error")
    assert f"id: {Cursor(1, 5, 6).encode()}\n\n" in quiet
    assert "data: " not in quiet
