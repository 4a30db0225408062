"""The last lines of a job's output: exactly those, read from the end."""

import base64
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger
from hypothesis import given
from hypothesis import strategies as st

from functions.submission.handler import Settings, build
from joblane.aws.job.output_store import OutputStore
from joblane.job.chunk import Chunk
from joblane.job.head import Head, make_head, with_step
from joblane.job.moves import AttemptFacts
from joblane.job.output import Cursor, OutputRecord, stream_name
from joblane.service.output.pages import PAGE_BYTES, log_page
from joblane.service.output.read import JobOutput, Tail
from joblane.service.output.tail import MOST_CHUNKS, MOST_EPOCHS, tail_start
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud, configure, output_store
from tests.support.events import EventSource, data_of
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW = int(time.time() * 1000) - 60_000

Attempts = Sequence[Sequence[Sequence[bytes]]]
"""Records by chunk by attempt."""


class Chunks(OutputStore):
    """Chunks in memory, by stream."""

    def __init__(self, attempts: Attempts) -> None:
        self.read_backwards = 0
        self._stored: dict[str, list[list[OutputRecord]]] = {}
        for epoch, chunks in enumerate(attempts, 1):
            seq, made = 0, list[list[OutputRecord]]()
            for chunk in chunks:
                records = [
                    OutputRecord(seq + n, "stdout", NOW, data) for n, data in enumerate(chunk, 1)
                ]
                seq += len(records)
                made.append(records)
            self._stored[stream_name("acme", JOB, epoch)] = made

    def backwards(self, stream: str) -> Iterator[tuple[int, list[OutputRecord]]]:
        """See OutputStore."""
        for records in reversed(self._stored.get(stream, [])):
            self.read_backwards += 1
            yield records[0].seq, records

    def after(self, cursor: Cursor, cut: int) -> bytes:
        """All bytes after a cursor, over all attempts."""
        texts = [
            record.data
            for epoch, (_, chunks) in enumerate(self._stored.items(), 1)
            for chunk in chunks
            for record in chunk
            if (epoch, record.seq) > (cursor.epoch, cursor.seq)
        ]
        return b"".join(texts)[cut:]


def job(*records: int, state: State = State.RETRY) -> Head:
    """A job with so many records in each attempt; the last one is in `state`."""
    head = make_head(JOB, "acme", submission(), NOW)
    for n, number in enumerate(records, 1):
        head = with_step(head, Step(State.ACTIVE, NOW, n, "claimed", "agent-1"))
        head = replace(head, epoch=n)
        if n < len(records) or state is not State.ACTIVE:
            step = Step(State.RETRY if n < len(records) else state, NOW, n, "ended", records=number)
            head = with_step(head, step)
    return head


RECORDS = st.lists(st.sampled_from([b"\n", b"a", b"\n\n", b"b\nc", b"d\n", b"\xff\xc3(\ne\n"]))
ATTEMPTS = st.lists(st.lists(RECORDS.filter(len), max_size=4), min_size=1, max_size=4)


@given(ATTEMPTS, st.integers(1, 12))
def test_the_tail_is_the_last_lines_of_all_attempts(attempts: list[list[list[bytes]]], lines: int):
    counts = [sum(map(len, chunks)) for chunks in attempts]
    outputs = [b"".join(data for chunk in chunks for data in chunk) for chunks in attempts]
    whole = [line for output in outputs for line in output.splitlines(keepends=True)]
    store = Chunks(attempts)
    start = tail_start(store, job(*counts), lines)
    assert b"".join(whole[-lines:]) == store.after(start.cursor, start.cut)


def test_output_without_an_end_is_read_to_a_bound():
    store = Chunks([[[b"."]] * (MOST_CHUNKS + 100)])
    start = tail_start(store, job(MOST_CHUNKS + 100), 5)
    assert (Cursor(1, 100, 101), MOST_CHUNKS) == (start.cursor, store.read_backwards)


def test_the_last_lines_fit_one_page():
    store = Chunks([[[b"x" * 30_000 + b"\n"]] * 100])
    start = tail_start(store, job(100), 90)
    assert PAGE_BYTES - 30_001 < len(store.after(start.cursor, start.cut)) <= PAGE_BYTES


def test_jobs_with_very_many_attempts_are_read_to_a_bound():
    store = Chunks([[[b"x\n"]]] * (MOST_EPOCHS + 8))
    start = tail_start(store, job(*[1] * (MOST_EPOCHS + 8)), 1000)
    assert MOST_EPOCHS == store.read_backwards
    assert b"x\n" * MOST_EPOCHS == store.after(start.cursor, start.cut)


def test_attempts_without_output_are_passed_over():
    store = Chunks([[[b"x\n"]], *[[]] * 50])
    start = tail_start(store, job(1, *[0] * 50), 1)
    assert Cursor(1, 0, 1) == start.cursor


# --- the API


def api_of(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


def store_job(aws: Cloud, head: Head) -> None:
    """Put a job into the table by the moves of its agents."""
    aws.jobs.put_new(make_head(JOB, "acme", submission(), NOW))
    steps = iter(head.timeline[1:])
    for _ in steps:
        claimed = aws.jobs.claim(named(JOB), "agent-1", NOW)
        if (step := next(steps, None)) is not None:
            aws.jobs.settle(claimed, step, AttemptFacts(Outcome.FAILED, exit_code=1))


def shown(page: Any) -> bytes:
    return b"".join(map(data_of, page["entries"]))


def ten_thousand(aws: Cloud) -> None:
    """Three attempts, the second without output; the last one of 10,000 lines in 200 chunks."""
    aws.output.write(
        stream_name("acme", JOB, 1), Chunk.of([OutputRecord(1, "stdout", NOW, b"old\n")])
    )
    for first in range(1, 10_001, 50):
        records = [
            OutputRecord(n, "stdout", NOW, b"line %d\n" % n) for n in range(first, first + 50)
        ]
        aws.output.write(stream_name("acme", JOB, 3), Chunk.of(records))
    store_job(aws, job(1, 0, 10_000, state=State.DEAD))


def test_the_end_of_long_output_is_read_without_the_rest(aws: Cloud):
    ten_thousand(aws)
    calls: Counter[str] = Counter()
    read = Counter[str]()

    def count(model: Any, parsed: dict[str, Any], **_: Any) -> None:
        calls[model.name] += 1
        read.update(row["stream"]["S"] for row in parsed.get("Items", []) if "stream" in row)

    aws.emitter().register("after-call", count)
    api = api_of(aws)
    _, page = api("GET", f"/v1/jobs/{JOB}/logs", query={"tail": "70"})
    assert b"".join(b"line %d\n" % n for n in range(9931, 10_001)) == shown(page)
    assert (True, 1000) == (page["complete"], page["limit"])
    # Four rows from the end, and the two of them that have the lines.
    assert {stream_name("acme", JOB, 3): 6} == read
    assert {"GetItem": 1, "Query": 2} == calls


def test_a_page_after_the_tail_goes_on_from_its_end(aws: Cloud, api: Api):
    stream = stream_name("acme", JOB, 1)
    aws.output.write(stream, Chunk.of([OutputRecord(1, "stdout", NOW, b"1\n2\n3\n")]))
    store_job(aws, job(1, state=State.ACTIVE))
    _, page = api("GET", f"/v1/jobs/{JOB}/logs", query={"tail": "2"})
    assert (b"2\n3\n", False) == (shown(page), page["complete"])
    aws.output.write(stream, Chunk.of([OutputRecord(2, "stdout", NOW, b"4\n5\n6\n")]))
    for query in ({}, {"tail": "1"}):  # whoever repeats the query goes on as well
        _, after = api("GET", f"/v1/jobs/{JOB}/logs", query={"next": page["next"], **query})
        assert b"4\n5\n6\n" == shown(after)


@pytest.mark.parametrize("number", ["0", "-1", "1001", "x", "", "1.0", "1_0"])
def test_a_wrong_tail_is_named(aws: Cloud, api: Api, number: str):
    store_job(aws, job(1))
    status, problem = api("GET", f"/v1/jobs/{JOB}/logs", query={"tail": number})
    assert (400, ["tail"]) == (status, [error["field"] for error in problem["errors"]])


def listen(aws: Cloud, head: Head, source: EventSource, lines: int) -> list[bytes]:
    """Ask once as a reader of events does, repeating its query."""
    output = JobOutput(
        aws.jobs, aws.output, time.time, Logger(), lambda _: 0, lambda _: None, lambda _: None
    )
    last = source.last_event_id
    text = output.events(head, Cursor.decode(last) if last else Tail(lines), 1000)
    events = source.feed(text.encode())
    return [data_of(json.loads(e.data)) for e in events if e.type == "message"]


def test_events_begin_with_the_tail_and_miss_nothing_after_it(aws: Cloud):
    head, source = job(3, state=State.ACTIVE), EventSource()
    stream = stream_name("acme", JOB, 1)
    aws.output.write(stream, Chunk.of([OutputRecord(1, "stdout", NOW, b"1\n2\n3\n")]))
    assert [b"3\n"] == listen(aws, head, source, 1)
    aws.output.write(stream, Chunk.of([OutputRecord(2, "stdout", NOW, b"4\n5\n")]))
    assert [b"4\n5\n"] == listen(aws, head, source, 1)


def test_a_reader_of_events_who_came_before_the_output_gets_all_of_it(aws: Cloud):
    """It is told its place, because the tail would be another one when it reconnects."""
    head, source = job(3, state=State.ACTIVE), EventSource()
    assert [] == listen(aws, head, source, 1)
    stream = stream_name("acme", JOB, 1)
    aws.output.write(stream, Chunk.of([OutputRecord(1, "stdout", NOW, b"1\n2\n3\n")]))
    assert [b"1\n2\n3\n"] == listen(aws, head, source, 1)


def test_large_chunks_are_read_from_the_end_too(aws: Cloud):
    stream = stream_name("acme", JOB, 1)
    noise = [base64.b64encode(str(n).encode() * 9) + b"\n" for n in range(9000)]
    for first in range(0, 9000, 3000):
        records = [OutputRecord(n + 1, "stdout", NOW, noise[n]) for n in range(first, first + 3000)]
        aws.output.write(stream, Chunk.of(records))
    calls: Counter[str] = Counter()
    aws.emitter().register("before-call.s3", lambda model, **_: calls.update([model.name]))
    store = output_store(aws.clients)
    start = tail_start(store, job(9000), 5)
    page = log_page(store, job(9000), start.cursor, limit=1000, now_ms=NOW, cut=start.cut)
    assert b"".join(noise[-5:]).decode() == "".join(record.text or "" for record in page.records)
    assert {"GetObject": 2} == calls


def test_silent_claims_beyond_the_bound_do_not_make_the_tail_the_whole_output():
    silent: list[list[list[bytes]]] = [[] for _ in range(MOST_EPOCHS)]
    store = Chunks([[[b"old\n"] * 5], *silent])
    start = tail_start(store, job(5, *[7] * MOST_EPOCHS), 2)  # their counts say more than there is
    assert b"" == store.after(start.cursor, start.cut)
