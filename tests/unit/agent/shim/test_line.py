"""A job's line to its agent: what is heard, what is answered, and what a hostile job gains."""

import contextlib
import json
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.shim.line import BURST, READ_BYTES, REQUESTS_A_SECOND, LineServer
from ec2_agent.shim.masking import Secrets
from ec2_agent.shim.operations import MAX_DEPTH, MAX_LINE, NAMES, PARTS, LineRequests
from joblane.condition.names import check_requested
from joblane.state.result import MAX_RESULT_BYTES as MAX_RESULT

CONDITION = "http:https://x.example/health"
OK: Any = {"ok": True}
PARAMS = json.dumps({"text": "x" * 250_000}).encode()

SOCKET_BYTES = 262_144
"""More than a socket buffers."""


class Ends:
    """A line with the job's end in our hand."""

    def __init__(self) -> None:
        ours, self.job = socket.socketpair()
        self.job.setblocking(False)
        self.params = os.memfd_create("params")
        os.write(self.params, PARAMS)
        self.said = LineRequests(check_requested, {"job_id": "J", "attempt": 1}, self.params)
        self.line = LineServer(ours, self.said, 0.0)
        self.now = 0.0

    def say(self, data: bytes) -> list[Any]:
        """Write as the job, let the agent listen until it hears nothing, and read its answers."""
        answers = b""
        while data:
            data = data[self._write(data) :]
            for _ in range(SOCKET_BYTES // READ_BYTES):
                self.now += 1
                self.line.pump(self.now)
                answers += self.read_received()
        return [json.loads(line) for line in answers.splitlines()]

    def _write(self, data: bytes) -> int:
        try:
            return self.job.send(data)
        except BlockingIOError:
            return 0

    def read_received(self) -> bytes:
        """Read what the agent has sent."""
        data = b""
        try:
            while part := self.job.recv(65536):
                data += part
        except BlockingIOError:
            pass
        return data

    def answers(self) -> list[Any]:
        """Read what the agent has answered."""
        return [json.loads(line) for line in self.read_received().splitlines()]

    def close(self) -> None:
        """Close both ends."""
        self.line.finish()
        self.job.close()
        os.close(self.params)


@pytest.fixture(name="ends")
def _ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.close()


DEEP = b"[" * 700 + b"]" * 700
"""What json.loads takes, and a function that calls itself for each level does not."""


def block(condition: str) -> bytes:
    return json.dumps({"block": condition}).encode() + b"\n"


def test_a_condition_is_taken_and_answered_and_the_last_one_counts(ends: Ends):
    assert [OK] == ends.say(block(CONDITION))
    assert CONDITION == ends.said.condition
    assert [OK, OK] == ends.say(block("app:billing") + block("tcp:db.example:5432"))
    assert "tcp:db.example:5432" == ends.said.condition


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"", "one JSON object"),
        (b"block", "one JSON object"),
        (b"\xff\xfe", "one JSON object"),
        (b"[" * MAX_LINE, "one JSON object"),
        (b"9" * MAX_LINE, "one JSON object"),
        ("{'block': 1}".encode("utf-16"), "one JSON object"),
        (b'["block"]', "one JSON object"),
        (b"{}", "one operation; known are block, context, error"),
        (b'{"weather": 3}', "one operation; known are"),
        (b'{"block": "app:x", "error": "y"}', "one operation"),
        (b'{"params": 1}', "params: must be true"),
        (b'{"heartbeat": false}', "heartbeat: must be true"),
        (b'{"context": null}', "context: must be true"),
        (b'{"progress": 3}', "progress: must be an object"),
        (b'{"progress": {}}', "progress: must be an object"),
        (b'{"progress": {"percent": 3, "more": 1}}', "progress: must be an object"),
        (b'{"progress": {"percent": true}}', "from 0 to 100"),
        (b'{"progress": {"percent": 100.5}}', "from 0 to 100"),
        (b'{"progress": {"percent": -1}}', "from 0 to 100"),
        (b'{"progress": {"percent": NaN}}', "one JSON object"),
        (b'{"progress": {"percent": null}}', "must have one of percent, message, step"),
        (b'{"progress": {"step": "%s"}}' % (b"a" * 61), "step has at most 60"),
        (b'{"progress": {"step": ""}}', "step: must not be empty"),
        (b'{"progress": {"current": 1.5}}', "current must be a whole number from 0"),
        (b'{"progress": {"current": true}}', "current must be a whole number from 0"),
        (b'{"progress": {"current": 0, "total": -1}}', "total must be a whole number from 0"),
        (b'{"progress": {"current": 0, "total": 9007199254740992}}', "total must be a whole"),
        (b'{"progress": {"total": 3}}', "total needs a current"),
        (b'{"progress": {"current": 4, "total": 3}}', "not more than it"),
        (b'{"progress": {"message": 3}}', "must be a string"),
        (b'{"progress": {"message": "\\n"}}', "must not be empty"),
        (b'{"progress": {"message": "%s"}}' % (b"a" * 201), "at most 200"),
        (b'{"progress": %s}' % DEEP, "progress: must be an object"),
        (b'{"error": 3}', "error: must be a string"),
        (b'{"skip": true}', "skip: must be a string"),
        (b'{"skip": " "}', "skip: must not be empty"),
        (b'{"error": %s}' % DEEP, "error: must be a string"),
        (b'{"error": "\\ud800"}', "error: must not be empty"),
        (b'{"result": NaN}', "one JSON object"),
        (b'{"result": 1e400}', "cannot be stored"),
        (b'{"result": "\\ud800"}', "cannot be stored"),
        (b'{"result": %s}' % (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)), "nested deeper"),
        (b'{"result": [%s]}' % b",".join([b"1e9"] * 60_000), "at most 262144 bytes"),
        (b'{"block": 7}', "must be a string"),
        (b'{"block": "weather:fine"}', "must start with one of http:"),
        (b'{"block": "app: x"}', "printable"),
        (b'{"block": "%s"}' % (b"a" * 600), "at most 512"),
        (b"x" * (MAX_LINE + 1), f"at most {MAX_LINE} bytes, and a result {MAX_RESULT}"),
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
    assert "app:before" == ends.said.condition
    assert [OK] == ends.say(block("app:after"))


def test_a_line_comes_in_pieces(ends: Ends):
    whole = block(CONDITION)
    assert [] == [answer for byte in whole[:-1] for answer in ends.say(bytes([byte]))]
    assert [OK] == ends.say(b"\n")


def test_a_line_without_end_is_refused_once_and_kept_nowhere(ends: Ends):
    answers = [answer for _ in range(60) for answer in ends.say(b"x" * READ_BYTES)]
    assert [] == answers  # not yet longer than a line may be
    answers = ends.say(b"x" * (3 * MAX_LINE))
    assert 1 == len(answers)
    assert 0 == len(ends.line._rest)  # that it does not grow
    assert [OK] == ends.say(b"still it\n" + block(CONDITION))


def test_what_never_got_its_newline_was_not_said(ends: Ends):
    ends.job.sendall(block(CONDITION) + block("app:unfinished")[:-1])
    ends.line.finish()
    assert CONDITION == ends.said.condition


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
    assert f"app:n{said - 1}" == ends.said.condition


def test_a_flood_is_heard_at_a_rate_and_then_waits_in_the_jobs_own_buffer(ends: Ends):
    said = 0
    try:
        while True:
            said += ends.job.send(b"{}\n" * 1000)
    except BlockingIOError:
        pass
    pause = ends.line.pump(0.0)
    assert pause == pytest.approx((READ_BYTES // 3 - BURST) / REQUESTS_A_SECOND, abs=0.02)
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
    assert heard <= BURST + now * REQUESTS_A_SECOND + 1


def test_answers_that_nobody_reads_are_lost_and_stop_nothing(ends: Ends):
    for number in range(2000):
        ends.job.sendall(block(f"app:n{number}"))
        ends.line.pump(float(number))
    assert "app:n1999" == ends.said.condition
    answers = ends.answers()
    assert 100 < len(answers) < 2000
    assert [OK] * len(answers) == answers  # none is cut


def test_progress_error_and_result_are_kept_and_the_last_ones_count(ends: Ends):
    said = ends.said
    assert [OK] * 3 == ends.say(
        b'{"progress": {"percent": 12.3456}}\n'
        b'{"progress": {"percent": 50, "message": "half\\n  way \\u2028"}}\n'
        b'{"progress": {"message": "still"}}\n'
    )
    kept = dict.fromkeys(PARTS) | {"message": "still"}
    assert (kept, 3) == (said.progress, said.progress_number)

    assert [OK, OK] == ends.say(
        b'{"error": "ValueError:\\n no\\u0007"}\n{"result": {"a": [1.0]}}\n'
    )
    assert ("ValueError: no", '{"a":[1.0]}') == (said.error, said.result)
    assert [OK, OK] == ends.say(b'{"error": "%s"}\n{"result": null}\n' % (b"e" * 1000))
    assert ("e" * 160, "null") == (said.error, said.result)


@pytest.mark.parametrize(
    ("report", "kept"),
    [
        ({"current": 3}, {"current": 3}),
        ({"current": 1, "total": 3}, {"percent": 33.33, "current": 1, "total": 3}),
        ({"current": 0, "total": 0}, {"percent": 100, "current": 0, "total": 0}),
        (
            {"percent": 5, "step": "up\nload", "current": 0, "total": 3},
            {"percent": 5, "step": "up load", "current": 0, "total": 3},
        ),
    ],
)
def test_percent_follows_from_what_is_counted(
    ends: Ends, report: dict[str, object], kept: dict[str, object]
):
    assert [OK] == ends.say(json.dumps({"progress": report}).encode() + b"\n")
    assert dict.fromkeys(PARTS) | kept == ends.said.progress


def test_the_line_says_why_the_job_is_to_stop(ends: Ends):
    assert [{"stopping": None}] == ends.say(b'{"stopping": true}\n')
    ends.said.stopping = "drain"
    assert [{"stopping": "drain"}] == ends.say(b'{"stopping": true}\n')


def test_a_heartbeat_changes_nothing_and_every_byte_counts_as_one(ends: Ends):
    assert [OK] == ends.say(b'{"heartbeat": true}\n')
    ends.job.sendall(b"{")
    ends.line.pump(500.0)
    assert 500.0 == ends.line.heard_at
    ends.line.pump(600.0)
    assert 500.0 == ends.line.heard_at


def test_a_result_of_full_size_is_taken_whole(ends: Ends):
    text = json.dumps("\u00e9" * ((MAX_RESULT - 2) // 2), ensure_ascii=False)
    assert MAX_RESULT == len(text.encode())
    assert [OK] == ends.say(b'{"result": ' + text.encode() + b"}\n")
    assert text == ends.said.result
    (answer,) = ends.say(b'{"result": "' + b"x" * (MAX_RESULT - 1) + b'"}\n')
    assert "at most" in answer["error"]
    assert text == ends.said.result


def test_a_job_asks_for_its_params_and_its_context_as_often_as_it_likes(ends: Ends):
    for _ in range(3):
        params, context = ends.say(b'{"params": true}\n{"context": true}\n')
        assert {"params": json.loads(PARAMS)} == params
        assert {"job_id": "J", "attempt": 1} == context


def test_a_job_without_a_type_has_no_params():
    answer = json.loads(LineRequests(check_requested).carry_out(b'{"params": true}'))
    assert "params: this job has none" in answer["error"]


def test_who_does_not_read_its_params_is_not_heard_and_keeps_one_answer_waiting(ends: Ends):
    ends.job.sendall(b'{"params": true}\n' * 200 + block("app:after"))
    for now in range(1000):
        ends.line.pump(float(now))
    waiting = len(ends.line._unsent)  # that it does not grow
    assert 0 < waiting <= len(PARAMS) + 16
    assert select.POLLOUT == ends.line.events
    parts = []
    for now in range(1000, 3000):
        parts.append(ends.read_received())
        ends.line.pump(float(now))
    answers = [json.loads(line) for line in b"".join(parts).splitlines()]
    assert 201 == len(answers)
    assert [OK] == answers[200:]
    assert "app:after" == ends.said.condition
    assert select.POLLIN == ends.line.events


def test_params_are_answered_at_a_rate(ends: Ends):
    ends.job.sendall(b'{"params": true}\n' * 10)
    pauses = 0.0
    for _ in range(100):
        pauses = max(pauses, ends.line.pump(0.0))
        ends.read_received()
    assert 0.5 <= pauses  # ten answers of 61 reads each, 200 at once, 100 a second


def test_a_job_that_dies_while_it_is_answered_is_heard_to_its_last_line(ends: Ends):
    ends.job.sendall(b'{"params": true}\n' * 3 + b'{"result": 7}\n')
    ends.line.pump(0.0)
    ends.job.close()
    ends.line.finish()
    assert "7" == ends.said.result


def test_a_condition_with_a_secret_is_refused():
    said = LineRequests(lambda _: None, secrets=Secrets([b"hunter2-hunter2"]))
    answer = said.carry_out(b'{"block": "app:hunter2-hunter2"}')
    assert "block: must not contain the value of a secret" == json.loads(answer)["error"]
    assert said.condition is None


@given(
    st.sampled_from(NAMES),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
)
def test_whatever_json_a_job_sends_is_answered_by_one_line_of_json(name: str, value: object):
    said = LineRequests(check_requested)
    answer = said.carry_out(json.dumps({name: value}).encode())
    assert answer.endswith(b"\n")
    assert 1 == answer.count(b"\n")
    assert isinstance(json.loads(answer), dict)
    for kept in (said.result, said.error, said.condition):
        (kept or "").encode()  # can be stored
    if said.result is not None:
        assert value == json.loads(said.result)


def test_the_jobs_end_may_be_shared_and_closed_and_shut_down(ends: Ends):
    with ends.job.dup() as shared:
        ends.job.close()
        shared.sendall(block(CONDITION))
        ends.line.pump(0.0)
        shared.shutdown(socket.SHUT_RD)
        shared.sendall(block("app:deaf"))
        ends.line.pump(0.0)
    assert "app:deaf" == ends.said.condition
    ends.line.pump(0.0)
    assert -1 == ends.line.fileno()
    ends.line.pump(0.0)


def test_a_job_that_hangs_up_unheard_is_heard_all_the_same(ends: Ends):
    ends.job.sendall(block(CONDITION))
    ends.job.close()
    ends.line.pump(0.0)
    assert CONDITION == ends.said.condition


def test_descriptors_that_the_job_sends_along_are_not_taken(ends: Ends):
    with socket.socket() as given:
        inode = os.fstat(given.fileno()).st_ino
        assert 1 == _descriptors_of(inode)
        socket.send_fds(ends.job, [block(CONDITION)], [given.fileno()] * 10)
    ends.line.pump(0.0)
    assert 0 == _descriptors_of(inode)
    assert CONDITION == ends.said.condition


def _descriptors_of(inode: int) -> int:
    """How many descriptors of this process are of a socket; others come and go meanwhile."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(entry.readlink()) == f"socket:[{inode}]"
    return found


@given(st.lists(st.binary(max_size=3 * READ_BYTES), max_size=6))
def test_garbage_gets_one_answer_a_line_and_never_more_than_a_line_is_kept(chunks: list[bytes]):
    ends = Ends()
    answers = [answer for chunk in chunks for answer in ends.say(chunk)]
    data = b"".join(chunks)
    assert data.count(b"\n") == len(answers)
    assert len(ends.line._rest) <= MAX_LINE
    ends.close()
