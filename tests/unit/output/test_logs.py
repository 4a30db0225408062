"""Reading output: every record once and in order, whenever the reader joins."""

import base64
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.aws.job.output_store import OutputRead
from joblane.job.chunk import Chunk
from joblane.job.head import Head, make_head, with_step
from joblane.job.output import Cursor, LogRecord, OutputRecord, stream_name
from joblane.service.output.pages import SETTLE_MS, log_page
from joblane.service.output.tail import tail_start
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, submission

NOW = int(time.time() * 1000) - 60_000


def job(*steps: Step) -> Head:
    head = make_head(JOB, "acme", submission(), NOW)
    for step in steps:
        head = with_step(head, step)
        head = replace(head, epoch=head.epoch + (step.state is State.ACTIVE))
    return head


def active(attempt: int) -> Step:
    return Step(State.ACTIVE, NOW, attempt, "claimed", "agent-1")


def write(aws: Cloud, epoch: int, *numbers: int, repeat: bool = False) -> None:
    """Write records in one chunk."""
    records = [OutputRecord(n, "stdout", NOW + n, b"%d\n" % n) for n in numbers]
    for _ in range(1 + repeat):
        aws.output.write(stream_name("acme", JOB, epoch), Chunk.of(records))


def read_all(aws: Cloud, head: Head, limit: int = 100) -> tuple[list[LogRecord], bool]:
    cursor, records = Cursor(), list[LogRecord]()
    for _ in range(200):
        page = log_page(aws.output, head, cursor, limit=limit, now_ms=NOW)
        records += page.records
        if page.complete or page.cursor == cursor:
            return records, page.complete
        cursor = page.cursor
    raise AssertionError("reading does not end")


@given(
    st.builds(
        OutputRecord,
        seq=st.integers(1, 1 << 40),
        stream=st.sampled_from(["stdout", "stderr", "joblane"]),
        time_ms=st.integers(0, 1 << 41),
        data=st.binary(),
    )
)
def test_a_record_survives_its_json_whatever_its_bytes(record: OutputRecord):
    got = LogRecord.of(record, 4, 3)
    data = got.text.encode() if got.text is not None else base64.b64decode(got.base64 or "")
    assert (4, 3, record.seq, record.stream) == (got.epoch, got.attempt, got.seq, got.stream)
    assert record.data == data


@given(
    st.builds(
        Cursor,
        st.integers(1, 1 << 50),
        st.integers(0, 1 << 50),
        st.integers(1, 1 << 50),
    )
)
def test_a_cursor_survives_its_text(cursor: Cursor):
    assert cursor == Cursor.decode(cursor.encode())


@pytest.mark.parametrize(
    "row", [[1, 3, None], [1, 3, "f/375"], [1, 3], [1, 3, 0], [1, 3, 2.0], [1, 3, True]]
)
def test_what_is_no_cursor_is_refused(row: list[object]):
    text = base64.urlsafe_b64encode(json.dumps(row).encode()).decode().rstrip("=")
    with pytest.raises(ValueError, match="not a cursor"):
        Cursor.decode(text)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_finished_job_is_read_whole_over_all_its_attempts(aws: Cloud, limit: int):
    write(aws, 1, 1, 2, 3)
    write(aws, 2, 1, 2)
    head = job(
        active(1),
        Step(State.RETRY, NOW, 1, "exit code 1", records=3),
        active(2),
        Step(State.COMPLETED, NOW, 2, "exit code 0", records=2),
    )
    records, complete = read_all(aws, head, limit)
    assert [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)] == [(r.attempt, r.seq) for r in records]
    assert complete


def test_a_write_that_the_sdk_repeats_is_read_once(aws: Cloud):
    write(aws, 1, 1, 2, repeat=True)
    head = job(active(1), Step(State.COMPLETED, NOW, 1, "exit code 0", records=2))
    records, complete = read_all(aws, head)
    assert [1, 2] == [r.seq for r in records]
    assert complete


def test_a_reader_that_joins_early_gets_what_comes_later(aws: Cloud):
    waiting, running = job(), job(active(1))
    page = log_page(aws.output, waiting, Cursor(), limit=10, now_ms=NOW)
    assert ([], False) == (page.records, page.complete)
    write(aws, 1, 1)
    page = log_page(aws.output, running, page.cursor, limit=10, now_ms=NOW)
    assert [1] == [r.seq for r in page.records]
    page = log_page(aws.output, running, page.cursor, limit=10, now_ms=NOW)
    assert ([], False) == (page.records, page.complete)
    write(aws, 1, 2)
    over = with_step(running, Step(State.COMPLETED, NOW, 1, "exit code 0", records=2))
    page = log_page(aws.output, over, page.cursor, limit=10, now_ms=NOW)
    assert ([2], True) == ([r.seq for r in page.records], page.complete)


def test_a_job_that_ended_is_not_complete_until_its_last_record_has_arrived(aws: Cloud):
    write(aws, 1, 1)
    head = job(active(1), Step(State.COMPLETED, NOW, 1, "exit code 0", records=2))
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=NOW)
    assert ([1], False) == ([r.seq for r in page.records], page.complete)
    late = log_page(aws.output, head, page.cursor, limit=10, now_ms=NOW + SETTLE_MS + 1)
    assert late.complete


def test_output_of_a_lost_agent_is_waited_for_and_then_passed_over(aws: Cloud):
    write(aws, 1, 1)
    write(aws, 2, 1)
    head = job(active(1), active(2), Step(State.COMPLETED, NOW, 2, "exit code 0", records=1))
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=NOW)
    assert [(1, 1)] == [(r.attempt, r.seq) for r in page.records]
    page = log_page(aws.output, head, page.cursor, limit=10, now_ms=NOW + SETTLE_MS + 1)
    assert ([(2, 1)], True) == ([(r.attempt, r.seq) for r in page.records], page.complete)


def test_two_agents_that_write_at_once_are_read_one_after_the_other(aws: Cloud):
    """The first was cut off and does not know that its job was taken over."""
    writes = [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]
    head = job(active(1), active(2))
    ended = with_step(head, Step(State.COMPLETED, NOW, 2, "exit code 0", records=3))
    for joins in range(len(writes) + 1):
        cursor, read = Cursor(), list[tuple[int, int]]()
        for n, (epoch, seq) in enumerate(writes):
            write(aws, epoch, seq)
            if n >= joins:
                page = log_page(aws.output, head, cursor, limit=10, now_ms=NOW)
                read += [(record.attempt, record.seq) for record in page.records]
                cursor = page.cursor
        page = log_page(aws.output, ended, cursor, limit=10, now_ms=NOW + SETTLE_MS + 1)
        read += [(record.attempt, record.seq) for record in page.records]
        assert page.complete
        assert sorted(writes) == read
        for row in rows(aws):
            aws.clients.make("dynamodb").delete_item(TableName=DESCRIPTOR.output_table, Key=row)


def rows(aws: Cloud) -> list[Any]:
    """The keys of all chunks."""
    table = aws.clients.make("dynamodb")
    items = table.scan(TableName=DESCRIPTOR.output_table)["Items"]
    return [{name: item[name] for name in ("stream", "seq")} for item in items]


@pytest.mark.parametrize("records", [0, None])
def test_a_job_without_output_is_complete_without_a_chunk(aws: Cloud, records: int | None):
    head = job(
        active(1), Step(State.COMPLETED, NOW - SETTLE_MS - 1, 1, "exit code 0", records=records)
    )
    assert ([], True) == read_all(aws, head)


def test_a_job_that_never_ran_is_complete(aws: Cloud):
    assert ([], True) == read_all(aws, job(Step(State.CANCELLED, NOW, 0, "cancelled")))


def rounds(*records: int) -> list[Step]:
    """Blocks in a row, each of which wrote so many records, and the way back."""
    return [
        step
        for number in records
        for step in (
            active(1),
            Step(State.BLOCKED, NOW, 0, "exit code 75", records=number),
            Step(State.PENDING, NOW, 0, "let go"),
        )
    ]


def test_output_of_blocks_that_stand_in_one_line_is_read_whole(aws: Cloud):
    write(aws, 1, 1, 2)
    write(aws, 3, 1)
    write(aws, 4, 1)
    head = job(*rounds(2, 0, 1), active(1), Step(State.COMPLETED, NOW, 1, "exit code 0", records=1))
    assert 6 == len(head.timeline)
    cursor, read = Cursor(), []
    while cursor.epoch <= 4:
        page = log_page(aws.output, head, cursor, limit=10, now_ms=NOW + SETTLE_MS + 1)
        read += [record.text for record in page.records]
        cursor = page.cursor
        if page.complete:
            break
    assert ["1\n", "2\n", "1\n", "1\n"] == read
    assert page.complete


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_an_open_job_that_blocks_again_and_again_shows_each_start_at_once(aws: Cloud, limit: int):
    """Its blocks are one line of the timeline, which is new with each of them."""
    counts = (2, 0, 1, 1)
    for epoch, count in enumerate(counts, 1):
        if count:
            write(aws, epoch, *range(1, count + 1))
    head = job(*rounds(*counts)[:-1])
    assert (State.BLOCKED, 3) == (head.state, len(head.timeline))
    records, complete = read_all(aws, head, limit)
    assert [(1, 1), (1, 2), (3, 1), (4, 1)] == [(r.epoch, r.seq) for r in records]
    assert {1} == {r.attempt for r in records}
    assert not complete
    again = with_step(head, Step(State.PENDING, NOW, 0, "let go"))
    again = replace(with_step(again, active(1)), epoch=5)
    write(aws, 5, 1)
    assert 5 == len(read_all(aws, again, limit)[0])


def test_the_tail_of_an_open_job_that_blocked_again_and_again(aws: Cloud):
    for epoch in range(1, 13):
        write(aws, epoch, 1)
    head = job(*rounds(*[1] * 12)[:-1])
    start = tail_start(aws.output, head, 11)
    assert Cursor(2) == start.cursor
    page = log_page(aws.output, head, start.cursor, limit=100, now_ms=NOW)
    assert (list(range(2, 10)), True) == ([r.epoch for r in page.records], page.more)
    page = log_page(aws.output, head, page.cursor, limit=100, now_ms=NOW)
    assert ([10, 11, 12], False) == ([r.epoch for r in page.records], page.more)


def test_a_follower_has_each_start_of_a_job_that_blocks_as_it_comes(aws: Cloud):
    cursor, steps, got = Cursor(), list[Step](), list[int]()
    for epoch in range(1, 6):
        for step in rounds(1):
            steps.append(step)
            if step.state is State.BLOCKED:
                write(aws, epoch, 1)
            page = log_page(aws.output, job(*steps), cursor, limit=10, now_ms=NOW)
            got += [record.epoch for record in page.records]
            cursor = page.cursor
        assert list(range(1, epoch + 1)) == got


def test_an_open_job_that_was_tried_so_often_that_its_timeline_is_folded(aws: Cloud):
    tries = 60
    for epoch in range(1, tries + 1):
        write(aws, epoch, 1)
    steps = [
        step
        for number in range(1, tries + 1)
        for step in (active(number), Step(State.RETRY, NOW, number, "exit code 1", records=1))
    ]
    records, complete = read_all(aws, job(*steps))
    assert [(n, n) for n in range(1, tries + 1)] == [(r.epoch, r.attempt) for r in records]
    assert not complete


def test_starts_whose_records_are_unknown_are_waited_for(aws: Cloud):
    """One of them was late: what it wrote may come after the next start."""
    late = Step(State.BLOCKED, NOW, 0, "exit code 75")
    head = job(active(1), late, Step(State.PENDING, NOW, 0, "let go"), *rounds(1)[:-1])
    write(aws, 1, 1)
    write(aws, 2, 1)
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=NOW)
    assert ([1], False) == ([r.epoch for r in page.records], page.more)
    write(aws, 1, 2)
    page = log_page(aws.output, head, page.cursor, limit=10, now_ms=NOW + SETTLE_MS + 1)
    assert [(1, 2), (2, 1)] == [(r.epoch, r.seq) for r in page.records]


def test_an_open_job_that_blocked_silently_is_read_with_one_question(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    read = aws.output.read

    def count(stream: str, *arguments: int) -> OutputRead:
        asked.append(stream)
        return read(stream, *arguments)

    monkeypatch.setattr(aws.output, "read", count)
    head = job(*rounds(*[0] * 3000)[:-1])
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=NOW)
    assert ([], False, [stream_name("acme", JOB, 3000)]) == (page.records, page.more, asked)


def test_thousands_of_silent_blocks_are_passed_over_without_a_question(aws: Cloud):
    head = job(
        *rounds(*[0] * 3000), active(1), Step(State.COMPLETED, NOW, 1, "exit code 0", records=1)
    )
    write(aws, 3001, 1)
    page = log_page(aws.output, head, Cursor(), limit=10, now_ms=NOW)
    assert ([1], True) == ([r.seq for r in page.records], page.complete)
