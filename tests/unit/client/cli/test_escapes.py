"""What a job writes cannot command the terminal of whoever reads it."""

import os
import pty
import re
import tty
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane import Client
from joblane.client.answers import LogReader
from joblane.client.cli.group.host_output import HostOutput
from joblane.client.cli.job.log_follower import ASK_AGAIN_S, LogFollower, LogWriter
from joblane.client.cli.text.escapes import UNSAFE, TerminalText
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, FakeJob, Request

CLEAR = b"\x1b[2J"
RED, RESET = b"\x1b[31m", b"\x1b[0m"


def on_a_terminal(fork: Spawn, *args: str) -> bytes:
    """What a terminal receives from a command that writes all its output there."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # else it would make CR LF of LF
    process = fork(*args, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # EIO: nobody holds the other end any more
            break
    os.close(ours)
    process.wait(10)
    return shown


@pytest.mark.parametrize("command", [("logs", "01J"), ("logs", "-f", "01J")])
def test_logs_on_a_terminal_show_control_characters_and_keep_colours(
    api: FakeApi, fork: Spawn, command: tuple[str, ...]
) -> None:
    job = api.add()
    job.say(b"a" + CLEAR + b"\x1b]52;c;cm0gLXJm\x07\x08\x9b31m\n", "stderr")
    job.say(RED + b"red" + RESET + b"\ttab\r\n\xe2\x80\xae\xc2\x9b\n")
    job.end()
    shown = b"a\\x1b[2J\\x1b]52;c;cm0gLXJm\\x07\\x08\\x9b31m\n"
    shown += RED + b"red" + RESET + b"\ttab\r\n\\u202e\\x9b\n"
    assert shown == on_a_terminal(fork, *command)
    assert CLEAR in on_a_terminal(fork, *command, "--raw")


def test_run_on_a_terminal_shows_control_characters_of_the_job(api: FakeApi, fork: Spawn) -> None:
    def work(job: FakeJob) -> None:
        job.say(CLEAR + b"\n")
        job.end("failed", reason=f"exit code 3 {CLEAR.decode()}", exit_code=3)

    api.on_submit = work
    shown = on_a_terminal(fork, "run", "--", "cmd")
    assert 2 == shown.count(rb"\x1b[2J")
    assert b"\x1b" not in shown


def test_get_and_json_on_a_terminal_show_control_characters_of_the_job(
    api: FakeApi, joblane: Joblane
) -> None:
    clear = f"{CLEAR.decode()}\x9b2J"
    api.add(command=["echo", clear], reason=clear, labels={clear: 1}).say(f"{clear}\n")
    for command in (["get", "01J"], ["ls"], ["logs", "01J"]):
        shown = joblane(*command, "--json").stdout.decode()
        assert not UNSAFE.search(shown)
        assert r"\u009b2J" in shown
    shown = joblane("get", "01J").stdout.decode()
    assert not UNSAFE.search(shown)
    assert clear in joblane("get", "--raw", "01J").stdout.decode()


def test_a_colour_of_the_job_does_not_hide_what_is_printed_after_it() -> None:
    text = TerminalText()
    assert b"\x1b[8mhidden" + RESET == text.feed(b"\x1b[8mhidden")
    assert b"\x1b[8mmore" + RESET == text.feed(b"more")
    assert b"\x1b[8m\x1b[mplain" == text.feed(b"\x1b[mplain")
    assert b"plain" == text.feed(b"plain")
    assert b"\x1b[31ma\x1b[0;1mb" + RESET == text.feed(b"\x1b[31ma\x1b[0;1mb")
    assert b"\x1b[0;1mc" + RESET == text.feed(b"c")


def test_a_progress_bar_is_drawn_on_a_terminal(api: FakeApi, fork: Spawn) -> None:
    bar = b"\r\x1b[32m 50%\x1b[0m\r\x1b[32m100%\x1b[0m"
    job = api.add()
    job.say(bar, "stderr")
    job.end()
    assert bar + b"\n" == on_a_terminal(fork, "logs", "01J")


def test_what_is_printed_after_a_bar_is_not_written_over_it() -> None:
    text = TerminalText()
    assert b"50%\r" == text.feed(b"50%\r")
    assert b"\n" == text.end()
    text = TerminalText()
    assert b"50%\r" + b"100%\nno end" == text.feed(b"50%\r") + text.feed(b"100%\nno end")
    assert b"" == text.end()


def test_a_note_is_not_written_over_a_bar(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("joblane.client.cli.text.terminal.is_terminal", lambda _stream: True)
    job = api.add(state="retry", reason="waits")
    job.say("50%\r")

    def end_once_it_was_read(_request: Request) -> None:
        if api.count("GET", "/v1/jobs/01J") > 1:
            job.end()

    api.before = end_once_it_was_read
    clock = map(float, count(0, ASK_AGAIN_S))  # that much passes with every page
    writer = LogWriter(raw=False)
    with Client(api.url, "secret") as client:
        follower = LogFollower(client, 60, writer, writer.end_lines, clock=lambda: next(clock))
        follower.follow("01J")
    shown = capfdbinary.readouterr()
    assert b"50%\r\n" == shown.out
    assert b"joblane: job 01J is retry: waits\n" == shown.err
    writer.end()
    assert (b"", b"") == capfdbinary.readouterr()


def test_a_carriage_return_does_not_hide_the_host(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("joblane.client.cli.text.terminal.is_terminal", lambda _stream: True)
    records = LogReader().read([{"stream": "stdout", "text": "a\x1b[8m\rb\r\n"}])
    HostOutput("web1", raw=False).write(records)
    shown = capfdbinary.readouterr().out
    assert b"web1 | a\x1b[8m\r" + RESET + b"web1 | \x1b[8mb\r\n" + RESET == shown


PIECES = st.lists(
    st.one_of(
        st.binary(max_size=4),
        st.sampled_from(
            [b"\x1b", b"[", b"31", b";", b"m", b"2J", b"\r", b"\n", b"\xc2", b"\x9b", b"\xe2\x80"]
        ),
    ),
    max_size=12,
)


@given(PIECES)
def test_no_way_to_cut_output_lets_a_control_character_through(pieces: list[bytes]) -> None:
    text = TerminalText()
    shown = b"".join([text.feed(piece) for piece in pieces] + [text.end()]).decode()
    assert not UNSAFE.search(re.sub(r"\x1b\[[0-9;:]*m|\r", "", shown))


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"])), st.data())
def test_harmless_text_stays_however_it_is_cut(given_text: str, data: st.DataObject) -> None:
    raw = given_text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    text = TerminalText()
    assert raw == text.feed(raw[:cut]) + text.feed(raw[cut:]) + text.end()
