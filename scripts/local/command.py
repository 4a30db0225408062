"""Shared by up, down and demo: the option --port, and exit codes."""

import argparse
import signal
import sys
from collections.abc import Callable
from types import FrameType

from scripts.local.emulator import DEFAULT_PORT
from scripts.local.errors import LocalError

HIGHEST_PORT = 65535


def port_from(arguments: list[str], program: str, purpose: str) -> int:
    """Read `--port N`. An invalid value ends the program with one line."""
    parser = argparse.ArgumentParser(prog=program, description=purpose)
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"loopback port for the local AWS (default {DEFAULT_PORT})",
    )
    port: int = parser.parse_args(arguments).port
    return port


def run(program: str, main: Callable[[], int]) -> int:
    """Run `main`. A LocalError is printed in one line; SIGTERM and Ctrl-C run the clean-up."""

    def end(number: int, _frame: FrameType | None) -> None:
        # From here on the clean-up runs; a second signal must not interrupt it.
        for again in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(again, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    try:
        return main()
    except LocalError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to {HIGHEST_PORT})")
    return int(text)
