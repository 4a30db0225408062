"""TAB in real shells on a terminal: they evaluate what they are offered."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.client.fake_api import FakeApi, ok
from tests.support.warm import Warm

LONGEST_S = 20.0
ROWS, COLUMNS = 60, 200
FIRST, SECOND = "01MCC5RM002VP5C98RFS3H2QM0", "01MCC5RM02X0EEJP5N5QNGWM0A"

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(joblane completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -Uz compinit && compinit -u -D && eval "$(joblane completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "joblane completion fish | source"),
}
"""How each starts without anybody's settings, and what its user has in them."""

TRICKS = (
    "\\$(>ran)",
    "$(>ran)",
    "`>ran`",
    "\\`>ran\\`",
    "(>ran)",
    "'; >ran; '",
    "\\\\$(>ran)",
    "$[$(>ran)]",
    "${(e):-\\$(>ran)}",
)
"""Texts that one of the shells runs when it is shown as help, or might: each would make a file."""


class Shell:
    """A shell on a terminal."""

    def __init__(self, program: list[str], environment: dict[str, str], home: Path) -> None:
        self.seen = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(home)
            os.execvpe(program[0], program, environment)  # noqa: S606 - it is one

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._terminal, text.encode())

    def wait_for(self, *words: str) -> None:
        """Read until all of the words were shown since the last call."""
        shown, ends = "", time.monotonic() + LONGEST_S
        while not all(word in shown for word in words):
            left_s = ends - time.monotonic()
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, left_s))
            assert ready, f"{words} not in {shown!r}, behind {self.seen!r}"
            shown += os.read(self._terminal, 65536).decode(errors="replace")
        self.seen += shown

    def close(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.fixture(name="shell", params=sorted(SHELLS))
def _shell(
    request: pytest.FixtureRequest, api: FakeApi, forked: Warm, tmp_path: Path
) -> Iterator[Shell]:
    """One in which joblane is completed, and has been asked for something."""
    program, setting = SHELLS[request.param]
    if shutil.which(program[0]) is None:
        pytest.skip(f"needs {program[0]}: scripts/shell-deps")
    joblane = tmp_path / "bin" / "joblane"
    joblane.parent.mkdir()
    forked.write_script(joblane)
    environment = {
        "PATH": f"{joblane.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "JOBLANE_URL": api.url,
        "JOBLANE_TOKEN": "secret",
        "JOBLANE_COMPLETION_S": "60",
    }
    shell = Shell(program, environment, tmp_path)
    try:
        shell.type(f"{setting}; echo rea''dy\r")
        shell.wait_for("ready")
        yield shell
    finally:
        shell.close()


def test_no_text_of_a_job_runs_when_somebody_presses_tab(
    shell: Shell, api: FakeApi, tmp_path: Path
) -> None:
    for number, trick in enumerate(TRICKS):
        api.add(f"{FIRST[:-2]}A{number}", name=trick)
        api.add(f"{FIRST[:-2]}B{number}", command=["sh", "-c", trick])
    api.add(SECOND, state="$(>ran)", name="x")
    shell.type("joblane get 01\t\t\t")
    shell.wait_for("QA0", f"QB{len(TRICKS) - 1}")  # fish leaves out what all have in common
    assert not (tmp_path / "ran").exists()
    assert SECOND not in shell.seen


def test_a_value_with_other_characters_is_not_offered(shell: Shell, api: FakeApi, tmp_path: Path):
    """None can have one; an API that is not ours answers what it likes."""
    entries = [{"name": f"q{trick}"} for trick in TRICKS]
    entries += [{"name": "qa-first"}, {"name": "qx-second"}]
    api.answers["/v1/queues"] = ok({"entries": entries, "limit": 100, "next": None})
    shell.type("joblane ls --queue q\t\t")
    shell.wait_for("qa-first", "qx-second")
    assert not (tmp_path / "ran").exists()
