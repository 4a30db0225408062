"""`joblane run` under Ctrl-C and in trouble: what it says of a job that goes on without it."""

import fcntl
import json
import os
import pty
import signal
import termios
import threading
from pathlib import Path

import pytest

from tests.support.client.command import Joblane, Spawn, wait_until
from tests.support.client.fake_api import CUT, FakeApi, FakeJob, Fault, gateway, problem


def test_ctrl_c_leaves_the_job_alone_and_says_how_to_see_it(api: FakeApi, spawn: Spawn) -> None:
    api.on_submit = lambda job: job.say("hello\n")
    process = spawn("run", "--", "cmd")
    assert process.stdout
    assert process.stdout.readline() == b"hello\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert stderr == GOES_ON


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_say_the_same_and_ask_nobody(
    api: FakeApi, spawn: Spawn, number: signal.Signals
) -> None:
    """On a terminal too: it may be gone, or a program has sent the signal."""
    api.on_submit = lambda job: job.say("hello\n")
    ours, theirs = pty.openpty()

    def heed() -> None:  # these tests may be run by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    process = spawn("run", "--", "cmd", stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=heed)
    os.close(theirs)
    until(ours, b"hello")
    process.send_signal(number)
    shown = until(ours, None)
    assert shown.strip().endswith(GOES_ON.strip())
    assert b"[y/N]" not in shown
    assert 128 + number == process.wait(10)


def test_nohup_stays(api: FakeApi, spawn: Spawn) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    api.on_submit = lambda job: job.say("hello\n")
    process = spawn("run", "--", "cmd", preexec_fn=ignore)
    assert process.stdout
    assert process.stdout.readline() == b"hello\n"
    process.send_signal(signal.SIGHUP)
    api.jobs["01J0"].end()
    assert (b"", b"") == process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_closed_pipe_at_the_result_says_nothing_of_a_job_that_has_ended(
    api: FakeApi, fork: Spawn
) -> None:
    def script(job: FakeJob) -> None:
        job.data["type"] = "sync"
        job.end(result={"synced": 2})

    api.on_submit = script
    reader, writer = os.pipe()
    os.close(reader)
    process = fork("run", "--type", "sync", stdout=writer)
    os.close(writer)
    _, stderr = process.communicate(timeout=10)
    assert (141, b"") == (process.returncode, stderr)


def test_a_closed_pipe_says_the_same(api: FakeApi, spawn: Spawn) -> None:
    """`joblane run -- cmd | head -1`."""
    api.on_submit = lambda job: job.say("hello\n")
    process = spawn("run", "--", "cmd")
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == b"hello\n"
    process.stdout.close()
    api.jobs["01J0"].say("more\n")
    assert GOES_ON == process.stderr.read()
    assert process.wait(10) == 141


GOES_ON = (
    b"joblane: job 01J0 continues; follow it with: joblane logs -f 01J0"
    b" or cancel it with: joblane cancel 01J0\n"
)


@pytest.mark.parametrize(
    ("typed", "cancelled", "last"),
    [
        (b"y\n", 1, b"joblane: job 01J0: its agent is told to end it"),
        (b"\n", 0, GOES_ON.strip()),
        (b"no\n", 0, GOES_ON.strip()),
        (b"\x03", 0, GOES_ON.strip()),
        (b"\x04", 0, GOES_ON.strip()),
    ],
)
def test_ctrl_c_on_a_terminal_asks_once_whether_to_cancel(
    api: FakeApi, spawn: Spawn, typed: bytes, cancelled: int, last: bytes
) -> None:
    path = "/v1/jobs/01J0/cancel"
    note = {"id": "01J0", "state": "active", "note": "its agent is told to end it"}
    api.answers[path] = (202, {"Content-Type": "application/json"}, json.dumps(note).encode())
    api.on_submit = lambda job: job.say("hello\n")
    ours, theirs = pty.openpty()

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "preexec_fn": own_terminal}
    process = spawn("run", "--", "cmd", **terminal)
    os.close(theirs)
    until(ours, b"hello")
    os.write(ours, b"\x03")
    until(ours, b"cancel job 01J0? [y/N] ")
    wait_until(lambda: reads_its_input(process.pid))
    os.write(ours, typed)
    assert until(ours, None).strip().endswith(last)
    assert process.wait(10) == 130
    assert api.count("POST", path) == cancelled


def reads_its_input(process: int) -> bool:
    """Whether a process waits in read(2) for its standard input.

    Before that, Python would notice Ctrl-C only after a further key.
    """
    number, *arguments = Path(f"/proc/{process}/syscall").read_text().split()
    return number in {"0", "63"} and arguments[0] == "0x0"  # of x86_64 and arm64


def until(terminal: int, word: bytes | None) -> bytes:
    """Read a terminal until it shows a word, or to its end."""
    shown = b""
    while word is None or word not in shown:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # EIO: nobody holds the other end any more
            assert word is None, shown
            break
    return shown


def test_a_read_that_lags_behind_the_submission_is_forgiven(api: FakeApi, joblane: Joblane) -> None:
    def before(_request: object) -> None:
        if len(api.requests) == 2:
            api.faults.append(problem(404, "Not Found", detail="there is no such job"))

    api.before = before
    assert joblane("run", "--", "cmd").code == 0


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (CUT, 69),
        (problem(500, "Internal Server Error", instance="req-9"), 69),
        (gateway(503, "Service Unavailable"), 69),
        ((202, {}, b"{}"), 76),
    ],
)
def test_a_submission_that_may_have_arrived_is_not_sent_twice(
    api: FakeApi, joblane: Joblane, fault: Fault, code: int
) -> None:
    """It is said that it may have been accepted, and why nobody knows."""
    api.faults.append(fault)
    ran = joblane("run", "--", "cmd")
    assert ran.code == code
    assert api.count("POST", "/v1/jobs") == 1
    maybe, why = ran.said.splitlines()
    assert maybe == "joblane: the job may have been accepted; check with: joblane ls"
    assert why.startswith("joblane: ")


def test_a_submission_that_never_left_is_not_called_accepted(api: FakeApi, joblane: Joblane):
    api.down()
    ran = joblane("run", "--", "cmd")
    assert ran.code == 69
    assert ran.said.startswith("joblane: cannot reach the API")
    assert ran.said.count("\n") == 1


def test_a_refused_connection_is_tried_again(api: FakeApi, joblane: Joblane) -> None:
    """Nobody saw the submission yet."""
    api.down()
    timer = threading.Timer(0.15, api.up)
    timer.start()
    ran = joblane("run", "--", "cmd")
    timer.join()
    assert (ran.code, ran.said) == (0, "")
    assert api.count("POST", "/v1/jobs") == 1


def test_trouble_while_following_says_that_the_job_goes_on(api: FakeApi, joblane: Joblane) -> None:
    def before(_request: object) -> None:
        if len(api.requests) > 1:
            api.faults.append(problem(403, "Forbidden"))

    api.before = before
    ran = joblane("run", "--", "cmd")
    assert ran.code == 77
    assert ran.said == (
        "joblane: 403 Forbidden: this needs the role reader; "
        "has JOBLANE_TOKEN expired, or does it lack a scope?\n"
        "joblane: job 01J0 continues; follow it with: joblane logs -f 01J0\n"
    )
