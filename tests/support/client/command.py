"""What tests of the command line call, and what a call leaves behind."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def said(self) -> str:
        """Stderr as text."""
        return self.stderr.decode()


Joblane = Callable[..., Ran]
Spawn = Callable[..., subprocess.Popen[bytes]]

MAIN = """
import signal
# Tests that run in the background of a shell inherit that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from joblane.client.cli import main
main()
"""
"""The program of a command line in a process of its own."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; pytest's time limit ends what never comes."""
    while not condition():
        time.sleep(0.005)
