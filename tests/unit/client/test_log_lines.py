"""Lines of an output, from records that are pieces of it."""

import base64
import json

import pytest

from joblane import Client
from joblane.client.answers import LogRecord, log_record
from joblane.client.cli import exit_codes
from joblane.client.log_lines import MOST_BYTES, LineJoiner
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi


def record(seq: int, data: bytes, stream: str = "stdout", attempt: int = 1) -> LogRecord:
    return log_record(
        {
            "attempt": attempt,
            "seq": seq,
            "stream": stream,
            "time": f"at {seq}",
            "base64": base64.b64encode(data).decode(),
        }
    )


def joined(*records: LogRecord) -> list[tuple[int, str, str, bytes]]:
    joiner = LineJoiner()
    found = [line for each in records for line in joiner.lines([each])]
    return [(line.seq, line.stream, line.time, line.data) for line in [*found, *joiner.end()]]


def test_a_line_has_the_number_and_the_time_of_the_record_that_it_begins_in():
    lines = joined(record(1, b"one\ntw"), record(2, b""), record(3, b"o\nthree\nfo"))
    assert [
        (1, "stdout", "at 1", b"one\n"),
        (1, "stdout", "at 1", b"two\n"),
        (3, "stdout", "at 3", b"three\n"),
        (3, "stdout", "at 3", b"fo"),
    ] == lines


def test_streams_are_joined_apart_and_come_as_their_lines_end():
    lines = joined(
        record(1, b"out"),
        record(2, b"err", "stderr"),
        record(3, b"!\n"),
        record(4, b"?\n", "stderr"),
    )
    assert [b"out!\n", b"err?\n"] == [line[3] for line in lines]
    left = joined(record(1, b"a", "stderr"), record(2, b"b"), record(3, b"c", "stderr"))
    assert [b"ac", b"b"] == [line[3] for line in left]


@pytest.mark.parametrize(("attempt", "seq"), [(2, 2), (1, 1), (2, 1)])
def test_a_line_does_not_go_on_in_another_claim(attempt: int, seq: int):
    lines = joined(record(1, b"cut"), record(seq, b"new\n", attempt=attempt))
    assert [b"cut", b"new\n"] == [line[3] for line in lines]


def test_carriage_returns_and_bytes_that_are_no_text_stay():
    joiner = LineJoiner()
    (first,) = joiner.lines([record(1, b"10 %\r20 %\r\n")])
    assert {"text": "10 %\r20 %\r\n"}.items() <= first.entry.items()
    (second,) = joiner.lines([record(2, b"\xff\x00\n")])
    assert log_record(second.entry) == second
    assert "text" not in second.entry


def test_a_line_that_does_not_end_is_not_gathered_for_ever():
    piece = b"x" * 32_768
    lines = joined(*(record(n, piece) for n in range(1, 100)))
    assert len(lines) > 1
    assert max(len(line[3]) for line in lines) <= MOST_BYTES
    assert piece * 99 == b"".join(line[3] for line in lines)


PIECES = ("on", "e\ntwo\nth", "ree\nend")


@pytest.mark.parametrize("follow", [False, True])
def test_programs_ask_for_lines(
    api: FakeApi,
    joblane: Joblane,
    connect: Connect,
    follow: bool,  # noqa: FBT001 - a parameter
):
    job = api.add()
    for piece in PIECES:
        job.say(piece)
    job.end()
    with connect(api.url) as client:
        assert ["one\n", "two\n", "three\n", "end"] == [
            line.text for line in client.logs("01J", follow=follow, lines=True)
        ]
        assert list(PIECES) == [piece.text for piece in client.logs("01J", follow=follow)]
    ran = joblane("logs", "01J", "--json", "--lines", *(["-f"] if follow else []))
    assert 0 == ran.code
    texts = [json.loads(line)["text"] for line in ran.stdout.splitlines()]
    assert ["one\n", "two\n", "three\n", "end"] == texts


def test_lines_are_for_json(api: FakeApi, joblane: Joblane):
    api.add()
    ran = joblane("logs", "01J", "--lines")
    assert (exit_codes.USAGE, True) == (ran.code, "--lines is for --json" in ran.said)


def test_a_job_has_its_lines(api: FakeApi):
    job = api.add()
    job.say("a\nb\n")
    with Client(api.url) as client:
        assert ["a\n", "b\n"] == [line.text for line in client.get("01J").logs(lines=True)]
