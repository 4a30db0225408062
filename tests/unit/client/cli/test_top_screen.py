"""`joblane top` in a real terminal: its keys, and what it leaves behind."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from struct import pack

import pytest

from tests.support.client.command import MAIN
from tests.support.client.fake_api import FakeApi, ok, problem
from tests.support.client.top_answers import SUMMARY, page, queue

PROGRAM = f"""
from joblane.client.connection import RETRY_READ, RETRY_UNSENT
RETRY_READ.backoff_factor = RETRY_UNSENT.backoff_factor = 0.05
{MAIN}"""


class Terminal:
    """A real terminal that runs `joblane top`."""

    def __init__(self, api: FakeApi, *options: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(theirs)
        kept = {name: v for name, v in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "top", *options],
            env={**kept, "JOBLANE_URL": api.url, "JOBLANE_TOKEN": "x", "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        self.theirs = theirs
        self._seen = ""

    def until(self, text: str) -> str:
        """Read until a text is on the screen; pytest's time limit ends what never comes."""
        while text not in self._seen:
            assert self.process.poll() is None, self.close()
            if select.select([self._ours], [], [], 0.05)[0]:
                self._seen += os.read(self._ours, 65536).decode()
        seen, found, self._seen = self._seen.partition(text)
        return seen + found

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def close(self) -> str:
        """Read the screen until the end; returns what was written to stderr."""
        while self.process.poll() is None:
            if select.select([self._ours], [], [], 0.05)[0]:
                os.read(self._ours, 65536)
        _, said = self.process.communicate(timeout=30)
        return said.decode()


@pytest.fixture(name="terminal")
def _terminal(api: FakeApi) -> Iterator[Terminal]:
    api.answers |= {
        "/v1/summary": ok(SUMMARY),
        "/v1/queues": ok(page(queue("first"), queue("second", 5))),
    }
    made = Terminal(api, "--interval", "2")
    yield made
    made.process.kill()
    made.process.communicate()


def test_keys_choose_what_is_shown_and_q_gives_the_terminal_back(terminal: Terminal):
    terminal.until("sorted by name")
    terminal.press("s")
    terminal.until("sorted by waiting")
    terminal.press("\t")
    terminal.until("queue        first")
    terminal.press("\t\t")
    terminal.until("nothing needs attention")
    terminal.press("q")
    assert "" == terminal.close()
    assert 0 == terminal.process.returncode
    assert terminal.before == termios.tcgetattr(terminal.theirs)


def test_ctrl_c_ends_it_without_a_trace(terminal: Terminal):
    terminal.until("second")
    terminal.process.send_signal(signal.SIGINT)
    assert "" == terminal.close()
    assert 130 == terminal.process.returncode
    assert terminal.before == termios.tcgetattr(terminal.theirs)


def test_while_the_api_is_away_the_screen_stays_and_says_since_when(
    api: FakeApi, terminal: Terminal
):
    terminal.until("second")
    api.down()
    seen = terminal.until("no answer since")
    seen += terminal.until("second")
    assert "Traceback" not in seen
    api.up()
    while "no answer since" in terminal.until("sorted by name"):
        pass
    terminal.press("q")
    assert "" == terminal.close()


def test_an_end_of_the_login_ends_it_with_a_sentence(api: FakeApi, terminal: Terminal):
    terminal.until("second")
    api.answers["/v1/summary"] = problem(401, "Unauthorized", detail="the token has expired")
    assert "joblane: 401 Unauthorized: the token has expired\n" == terminal.close()
    assert 77 == terminal.process.returncode
