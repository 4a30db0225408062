"""Output as a stream of events: every byte, once and in order, whenever a reader comes back."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger
from hypothesis import given
from hypothesis import strategies as st

from functions.submission.handler import Settings, build
from joblane.aws.errors import AwsRefused
from joblane.contract.sse import end_event, position_event, reconnect_after, record_event
from joblane.job.chunk import Chunk
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.job.output import Cursor, LogRecord, OutputRecord, Stream, stream_name
from joblane.service.output.read import AT_ONCE_MS, RETRY_MS, TROUBLE_MS, WAITS_S, JobOutput
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.events import EventSource, data_of
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW = int(time.time() * 1000) - 60_000

RECORDS = st.builds(
    OutputRecord,
    seq=st.integers(1, 1 << 40),
    stream=st.sampled_from(["stdout", "stderr", "joblane"]),
    time_ms=st.integers(0, 1 << 41),
    data=st.binary() | st.text().map(str.encode),
)
CURSORS = st.builds(
    Cursor,
    st.integers(1, 1 << 50),
    st.integers(0, 1 << 50),
    st.integers(1, 1 << 50),
)


@given(st.lists(st.tuples(RECORDS, CURSORS)))
def test_records_survive_a_stream_whatever_their_bytes(records: list[tuple[OutputRecord, Cursor]]):
    parts = [reconnect_after(500)]
    for record, cursor in records:
        parts.append(record_event(LogRecord.of(record, 4, 3), cursor))
    source = EventSource()
    events = source.feed("".join(parts).encode())
    assert len(records) == len(events)
    assert 500 == source.retry_ms
    for (record, cursor), event in zip(records, events, strict=True):
        found = json.loads(event.data)
        assert ("message", cursor) == (event.type, Cursor.decode(event.id))
        assert (record.seq, record.stream, record.data) == (
            found["seq"],
            found["stream"],
            data_of(found),
        )


@given(st.text(max_size=200), CURSORS)
def test_no_reason_breaks_the_frame_of_the_end(reason: str, cursor: Cursor):
    head = make_head(JOB, "acme", submission(), NOW)
    head = replace(head, timeline=(replace(head.timeline[0], reason=reason),))
    source = EventSource()
    (event,) = source.feed((position_event(cursor) + end_event(head)).encode())
    assert ("end", reason) == (event.type, json.loads(event.data)["reason"])


class Running:
    """A job in the tables, moved by the test as its agent would."""

    def __init__(self, aws: Cloud, **fields: object) -> None:
        self._aws = aws
        self.head = make_head(JOB, "acme", submission(**fields), NOW)
        aws.jobs.put_new(self.head)

    def start(self) -> None:
        """Be claimed."""
        self.head = self._aws.jobs.claim(named(JOB), "agent-1", NOW)

    def write(self, *lines: tuple[int, Stream, bytes]) -> None:
        """Write records."""
        records = [OutputRecord(seq, stream, NOW + seq, data) for seq, stream, data in lines]
        self._aws.output.write(self._stream, Chunk.of(records))

    def end(self, state: State, outcome: Outcome, records: int) -> None:
        """End the attempt."""
        step = Step(state, NOW, self.head.attempt, f"became {state}", records=records)
        facts = AttemptFacts(outcome, exit_code=int(outcome is not Outcome.SUCCEEDED))
        self.head = self._aws.jobs.settle(self.head, step, facts)

    def restart(self) -> None:
        """Be retried by hand."""
        step = plan(self.head, Event.RETRY, NOW, "retried")
        self.head = self._aws.jobs.move(self.head, Event.RETRY, step)

    @property
    def _stream(self) -> str:
        return stream_name("acme", JOB, self.head.epoch)


@pytest.fixture(name="running")
def _running(aws: Cloud) -> Running:
    return Running(aws)


def make_api(aws: Cloud) -> Api:
    return Api(build(configure(Settings), aws.clients, time.time))


def two_attempts(job: Running) -> list[tuple[int, str, bytes]]:
    """Run a job that fails, is tried again and succeeds; returns what it wrote."""
    job.start()
    job.write((1, "stdout", b"one\r\n"), (2, "stderr", b"\xff\xfe\n"), (3, "stdout", b"\n"))
    job.end(State.RETRY, Outcome.FAILED, 3)
    job.start()
    job.write((1, "stdout", b"two\n"), (2, "joblane", "f\u00fcr immer\u2028".encode()))
    job.end(State.COMPLETED, Outcome.SUCCEEDED, 2)
    return [
        (1, "stdout", b"one\r\n"),
        (1, "stderr", b"\xff\xfe\n"),
        (1, "stdout", b"\n"),
        (2, "stdout", b"two\n"),
        (2, "joblane", "f\u00fcr immer\u2028".encode()),
    ]


def ask(api: Api, last_event_id: str = "", **query: str) -> dict[str, Any]:
    headers = {"accept": "text/event-stream"}
    if last_event_id:
        headers["last-event-id"] = last_event_id
    return api.raw("GET", f"/v1/jobs/{JOB}/logs", query=query, headers=headers)


def listen(api: Api, source: EventSource, most: int = 50, **query: str) -> EventSource:
    """Do as an EventSource does, until it is told to stop."""
    for _ in range(most):
        answer = ask(api, source.last_event_id, **query)
        if answer["statusCode"] == 204:
            return source
        assert (200, "text/event-stream") == (
            answer["statusCode"],
            answer["headers"]["Content-Type"],
        )
        source.feed(answer["body"].encode())
    raise AssertionError("the stream does not end")


def told(source: EventSource) -> list[tuple[int, str, bytes]]:
    records = [json.loads(event.data) for event in source.events if event.type == "message"]
    return [(record["attempt"], record["stream"], data_of(record)) for record in records]


@pytest.mark.parametrize("limit", ["1", "2", "1000"])
def test_a_reader_who_joins_after_the_job_is_told_all_and_the_end(
    api: Api, running: Running, limit: str
):
    written = two_attempts(running)
    source = listen(api, EventSource(), limit=limit)
    assert written == told(source)
    *_, last = source.events
    assert "end" == last.type
    end = {"state": "completed", "reason": "became completed", "exit_code": 0}
    assert end == json.loads(last.data)
    assert 1 == sum(event.type == "end" for event in source.events)


def test_a_reader_goes_on_from_every_id(api: Api, running: Running):
    written = two_attempts(running)
    everything = listen(api, EventSource())
    for n, event in enumerate(everything.events):
        later = listen(api, EventSource(last_event_id=event.id))
        assert written[n + 1 :] == told(later), n


def test_whoever_was_told_the_end_is_told_to_stop(api: Api, running: Running):
    two_attempts(running)
    source = EventSource()
    source.feed(ask(api)["body"].encode())
    again = ask(api, source.last_event_id)
    assert (204, "") == (again["statusCode"], again["body"])


def test_a_reader_may_begin_where_a_page_of_json_ended(api: Api, running: Running):
    written = two_attempts(running)
    _, page = api("GET", f"/v1/jobs/{JOB}/logs", query={"limit": "2"})
    assert written[2:] == told(listen(api, EventSource(), next=page["next"]))


def test_a_reader_who_stays_hears_of_the_attempt_after_the_end(api: Api, running: Running):
    running.start()
    running.write((1, "stdout", b"x"))
    running.end(State.FAILED, Outcome.PERMANENT, 1)
    source = listen(api, EventSource())
    running.restart()
    running.start()
    running.write((1, "stdout", b"y"))
    running.end(State.COMPLETED, Outcome.SUCCEEDED, 1)
    listen(api, source)
    assert [(1, "stdout", b"x"), (1, "stdout", b"y")] == told(source)
    assert ["failed", "completed"] == [
        json.loads(event.data)["state"] for event in source.events if event.type == "end"
    ]


def test_a_job_that_never_ran_ends_without_a_word(api: Api, aws: Cloud, running: Running):
    step = plan(running.head, Event.CANCEL, NOW, "cancelled")
    aws.jobs.move(running.head, Event.CANCEL, step)
    source = listen(api, EventSource())
    assert ["end"] == [event.type for event in source.events]
    assert "cancelled" == json.loads(source.events[0].data)["state"]


class Clock:
    """Time that passes only by sleeping; what happens at a moment happens then."""

    def __init__(self, *happenings: tuple[float, Callable[[], None]]) -> None:
        self.now = NOW / 1000
        self._begun = self.now
        self._coming = list(happenings)

    def __call__(self) -> float:
        """Seconds of the Unix epoch."""
        return self.now

    @property
    def passed(self) -> float:
        """Seconds since the beginning."""
        return self.now - self._begun

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        while self._coming and self._coming[0][0] <= self.passed:
            self._coming.pop(0)[1]()


def output(aws: Cloud, clock: Clock) -> JobOutput:
    """Read output while `clock` passes."""
    return JobOutput(
        aws.jobs, aws.output, clock, Logger(), lambda _: 60, lambda _: None, clock.sleep
    )


def answer(aws: Cloud, head: Head, clock: Clock, source: EventSource) -> int:
    """Ask once, as `source` would; returns how many events came."""
    start = Cursor.decode(source.last_event_id) if source.last_event_id else Cursor()
    return len(source.feed(output(aws, clock).events(head, start, 1000).encode()))


def test_a_reader_who_joins_before_the_job_waits_for_its_first_line(aws: Cloud, running: Running):
    waiting = running.head

    def begin() -> None:
        running.start()
        running.write((1, "stdout", b"first\n"))

    clock, source = Clock((1.0, begin)), EventSource()
    assert 1 == answer(aws, waiting, clock, source)
    assert [(1, "stdout", b"first\n")] == told(source)
    assert 1.0 <= clock.passed < 2.0
    assert RETRY_MS == source.retry_ms


def test_a_reader_is_kept_waiting_for_seconds_only(aws: Cloud, running: Running):
    clock, source = Clock(), EventSource()
    assert 0 == answer(aws, running.head, clock, source)
    assert sum(WAITS_S) == pytest.approx(clock.passed)
    assert "" == source.last_event_id


def test_a_reader_who_waits_hears_of_the_end(aws: Cloud, running: Running):
    running.start()
    active = running.head
    clock = Clock((0.5, lambda: running.end(State.COMPLETED, Outcome.SUCCEEDED, 0)))
    source = EventSource()
    answer(aws, active, clock, source)
    assert ["end"] == [event.type for event in source.events]
    assert clock.passed < 1


def test_a_reader_whose_job_is_deleted_is_let_go(aws: Cloud, running: Running):
    clock = Clock((0.5, lambda: aws.jobs.delete(JOB)))
    assert 0 == answer(aws, running.head, clock, EventSource())
    assert clock.passed < 1


def test_an_attempt_without_output_is_not_walked_again(aws: Cloud, running: Running):
    running.start()
    running.end(State.RETRY, Outcome.FAILED, 0)
    running.start()
    source = EventSource()
    assert 0 == answer(aws, running.head, Clock(), source)
    assert 2 == Cursor.decode(source.last_event_id).epoch


def test_a_long_log_comes_in_parts_that_lambda_can_answer(aws: Cloud, running: Running):
    running.start()
    line = b"\x01" * 32_000  # JSON writes each of them as six bytes
    for seq in range(1, 41):
        running.write((seq, "stdout", line))
    running.end(State.COMPLETED, Outcome.SUCCEEDED, 40)
    source, sizes = EventSource(), []
    while not any(event.type == "end" for event in source.events):
        start = Cursor.decode(source.last_event_id) if source.last_event_id else Cursor()
        clock = Clock()
        text = output(aws, clock).events(running.head, start, 1000)
        sizes.append(len(json.dumps({"body": text})))
        source.feed(text.encode())
        assert source.retry_ms in (AT_ONCE_MS, RETRY_MS)
    assert [line] * 40 == [data for _, _, data in told(source)]
    assert max(sizes) < 6_000_000


def nested(levels: int) -> str:
    """An id whose JSON takes the parser more levels than Python's stack has."""
    return base64.urlsafe_b64encode(b"[" * levels).decode().rstrip("=")


@pytest.mark.parametrize("given_id", ["x", "\u00e9", "W10", nested(7_000)])
@pytest.mark.usefixtures("running")
def test_an_id_that_is_not_ours_is_named(api: Api, given_id: str):
    refused = ask(api, given_id)
    assert 400 == refused["statusCode"]
    assert "Last-Event-ID" == json.loads(refused["body"])["errors"][0]["field"]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("Text/Event-Stream; charset=utf-8", "text/event-stream"),
        ("application/json, text/event-stream", "text/event-stream"),
        ("text/event-streams", "application/json"),
    ],
)
def test_json_or_events_by_accept(api: Api, running: Running, accept: str, kind: str):
    two_attempts(running)
    found = api.raw("GET", f"/v1/jobs/{JOB}/logs", headers={"accept": accept})
    assert (200, kind) == (found["statusCode"], found["headers"]["Content-Type"])


def test_trouble_of_aws_does_not_end_a_stream(aws: Cloud, running: Running):
    two_attempts(running)

    def throttle(**_: object) -> None:
        raise AwsRefused({"Error": {"Code": "ThrottlingException"}}, "Query")

    aws.emitter().register("before-call.dynamodb.Query", throttle)
    api = make_api(aws)
    source = EventSource()
    found = ask(api)
    source.feed(found["body"].encode())
    assert (200, TROUBLE_MS, []) == (found["statusCode"], source.retry_ms, source.events)
    assert 503 == api("GET", f"/v1/jobs/{JOB}/logs")[0]
    assert DESCRIPTOR.output_table not in found["body"]
