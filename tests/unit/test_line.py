"""A job's line to its agent: what is heard, what is answered, and what a hostile job gains."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.shim.line import BURST, LINES_A_SECOND, MAX_LINE, Line
from joblane.condition.names import requested

CONDITION = "http:https://x.example/health"
OK: Any = {"ok": True}


class Ends:
    """A line with the job's end in our hand."""

    def __init__(self) -> None:
        ours, self.job = socket.socketpair()
        self.job.setblocking(False)
        self.line = Line(ours, requested, 0.0)
        self.now = 0.0

    def say(self, data: bytes) -> list[Any]:
        """Write as the job, let the agent listen until it hears nothing, and read its answers."""
        self.job.sendall(data)
        for _ in range(len(data) // MAX_LINE + 1):
            self.line.pump(self.now)
        return self.answers()

    def answers(self) -> list[Any]:
        """Read what the agent has answered."""
        data = b""
        try:
            while part := self.job.recv(65536):
                data += part
        except BlockingIOError:
            pass
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        """Close both ends."""
        self.line.finish()
        self.job.close()


@pytest.fixture(name="ends")
def _ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


def block(condition: str) -> bytes:
    return json.dumps({"block": condition}).encode() + b"\n"


def test_a_condition_is_taken_and_answered_and_the_last_one_counts(ends: Ends):
    assert [OK] == ends.say(block(CONDITION))
    assert CONDITION == ends.line.condition
    assert [OK, OK] == ends.say(block("app:billing") + block("tcp:db.example:5432"))
    assert "tcp:db.example:5432" == ends.line.condition


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"", "one JSON object"),
        (b"block", "one JSON object"),
        (b"\xff\xfe", "one JSON object"),
        (b"[" * MAX_LINE, "one JSON object"),
        (b"9" * MAX_LINE, "one JSON object"),
        (b'["block"]', "one JSON object"),
        (b"{}", "known is"),
        (b'{"progress": 3}', "known is"),
        (b'{"block": "app:x", "more": 1}', "known is"),
        (b'{"block": 7}', "must be a string"),
        (b'{"block": "weather:fine"}', "must start with one of http:"),
        (b'{"block": "app: x"}', "printable"),
        (b'{"block": "%s"}' % (b"a" * 600), "at most 512"),
        (b"x" * (MAX_LINE + 1), "at most 4096 bytes"),
    ],
)
def test_anything_else_is_answered_with_what_is_wrong_and_changes_nothing(
    ends: Ends, line: bytes, word: str
):
    ends.say(block("app:before"))
    (answer,) = ends.say(line + b"\n")
    assert ["error"] == list(answer)
    assert word in answer["error"]
    assert len(json.dumps(answer)) < 200
    assert "app:before" == ends.line.condition
    assert [OK] == ends.say(block("app:after"))


def test_a_line_comes_in_pieces(ends: Ends):
    whole = block(CONDITION)
    assert [] == [answer for byte in whole[:-1] for answer in ends.say(bytes([byte]))]
    assert [OK] == ends.say(b"\n")


def test_a_line_without_end_is_refused_once_and_kept_nowhere(ends: Ends):
    answers = [answer for _ in range(100) for answer in ends.say(b"x" * MAX_LINE)]
    assert 1 == len(answers)
    assert 0 == len(ends.line._rest)  # noqa: SLF001 - that it does not grow
    assert [OK] == ends.say(b"still it\n" + block(CONDITION))


def test_what_never_got_its_newline_was_not_said(ends: Ends):
    ends.job.sendall(block(CONDITION) + block("app:unfinished")[:-1])
    ends.line.finish()
    assert CONDITION == ends.line.condition


def test_what_was_said_before_the_end_counts_though_nobody_had_listened(ends: Ends):
    said = 0
    try:
        while True:
            ends.job.send(block(f"app:n{said}"))
            said += 1
    except BlockingIOError:
        pass
    ends.line.finish()
    assert said > 100
    assert f"app:n{said - 1}" == ends.line.condition


def test_a_flood_is_heard_at_a_rate_and_then_waits_in_the_jobs_own_buffer(ends: Ends):
    said = 0
    try:
        while True:
            said += ends.job.send(b"{}\n" * 1000)
    except BlockingIOError:
        pass
    pause = ends.line.pump(0.0)
    assert pause == pytest.approx((MAX_LINE // 3 - BURST) / LINES_A_SECOND, abs=0.02)
    assert 0 < ends.line.pump(pause + 100)
    ends.line.finish()
    with pytest.raises(BrokenPipeError):
        ends.job.send(b"{}\n")


def test_the_rate_is_never_above_what_it_says(ends: Ends):
    now = 0.0
    heard = 0
    for _ in range(600):
        ends.job.sendall(b"{}\n")
        pause = ends.line.pump(now)
        heard += 1
        now += pause
        ends.answers()
    assert heard <= BURST + now * LINES_A_SECOND + 1


def test_answers_that_nobody_reads_are_lost_and_stop_nothing(ends: Ends):
    for number in range(2000):
        ends.job.sendall(block(f"app:n{number}"))
        ends.line.pump(float(number))
    assert "app:n1999" == ends.line.condition
    answers = ends.answers()
    assert 100 < len(answers) < 2000
    assert [OK] * len(answers) == answers  # none is cut


def test_the_jobs_end_may_be_shared_and_closed_and_shut_down(ends: Ends):
    with ends.job.dup() as shared:
        ends.job.close()
        shared.sendall(block(CONDITION))
        ends.line.pump(0.0)
        shared.shutdown(socket.SHUT_RD)
        shared.sendall(block("app:deaf"))
        ends.line.pump(0.0)
    assert "app:deaf" == ends.line.condition
    ends.line.pump(0.0)
    assert -1 == ends.line.fileno()
    ends.line.pump(0.0)


def test_a_job_that_hangs_up_unheard_is_heard_all_the_same(ends: Ends):
    ends.job.sendall(block(CONDITION))
    ends.job.close()
    ends.line.pump(0.0)
    assert CONDITION == ends.line.condition


def test_descriptors_that_the_job_sends_along_are_not_taken(ends: Ends):
    with socket.socket() as given:
        inode = os.fstat(given.fileno()).st_ino
        assert 1 == _descriptors_of(inode)
        socket.send_fds(ends.job, [block(CONDITION)], [given.fileno()] * 10)
    ends.line.pump(0.0)
    assert 0 == _descriptors_of(inode)
    assert CONDITION == ends.line.condition


def _descriptors_of(inode: int) -> int:
    """How many descriptors of this process are of a socket; others come and go meanwhile."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(entry.readlink()) == f"socket:[{inode}]"
    return found


@given(st.lists(st.binary(max_size=3 * MAX_LINE), max_size=6))
def test_garbage_gets_one_answer_a_line_and_never_more_than_a_line_is_kept(chunks: list[bytes]):
    ends = Ends()
    answers = [answer for chunk in chunks for answer in ends.say(chunk)]
    data = b"".join(chunks)
    unfinished = len(data.rsplit(b"\n", 1)[-1]) > MAX_LINE
    assert data.count(b"\n") + unfinished == len(answers)
    assert len(ends.line._rest) <= MAX_LINE  # noqa: SLF001
    ends.close()
