"""Shared by up, down and demo: the option --port, and exit codes."""

import argparse
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import httpx

from scripts.local.emulator import DEFAULT_PORT, bind, bind_usual
from scripts.local.errors import LocalError
from scripts.local.progress import say

HIGHEST_PORT = 65535


def port_from(arguments: list[str], program: str, purpose: str) -> int | None:
    """Read `--port N`, None if it is not given. An invalid value ends the program with one line."""
    parser = argparse.ArgumentParser(prog=program, description=purpose)
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"loopback port for the local AWS (default {DEFAULT_PORT}, or the next free one)",
    )
    port: int | None = parser.parse_args(arguments).port
    return port


def listen_on(port: int | None) -> Callable[[], socket.socket]:
    """Return what binds the port that was asked for, or the usual one."""
    return partial(bind, port) if port is not None else partial(bind_usual, say)


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
    except httpx.TransportError as error:
        what = f"{type(error).__name__} {error}".rstrip()
        print(f"{program}: the local AWS did not answer ({what})", file=sys.stderr)
        return 1


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to {HIGHEST_PORT})")
    return int(text)
