"""The engines that are asked, each a program in its own virtual environment."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


class Engine:
    """A running program that answers lines of JSON with lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout

    def ask(self, request: object) -> Any:
        """Send a line; returns the next line of the program."""
        self._input.write(json.dumps(request) + "\n")
        self._input.flush()
        return json.loads(self._output.readline())

    def judge(self, what: str, texts: Sequence[str], events: Sequence[object]) -> list[list[bool]]:
        """Whether each pattern lets each event pass; `what` they are: `patterns` or `rules`."""
        answer: list[list[bool]] = self.ask({what: texts, "events": events})
        return answer


@contextmanager
def running(name: str, environment: str, home: Path) -> Iterator[Engine]:
    """Run a program of this folder by the Python of an environment in .local."""
    python = ROOT / ".local" / environment / "bin/python"
    assert python.exists(), "run scripts/second-opinion-deps"
    command = [python, HERE / f"{name}_engine.py"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Nothing of this host's AWS or LocalStack; no figures for LocalStack's statistics.
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "DISABLE_EVENTS": "1"},
    ) as process:
        yield Engine(process)
