"""SIGTERM and SIGHUP: they end a command as Ctrl-C does, so that it says what continues."""

import signal
from types import FrameType
from typing import NoReturn

from joblane.client.cli import exit_codes

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Sent by supervisors, `timeout` and `kill`, and when a terminal or an SSH connection closes."""


class Terminated(KeyboardInterrupt):
    """A signal that ends the command; nobody is there to be asked."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def handle_signals() -> None:
    """Raise `Terminated` for these signals, unless they are ignored, as `nohup` does."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Exit code of an interrupted command."""
    if isinstance(interrupt, Terminated):
        return exit_codes.SIGNAL + interrupt.number
    return exit_codes.INTERRUPTED


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    raise Terminated(number)
