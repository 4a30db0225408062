"""Programs that are forked from a process that has imported them: 20 ms a start, not a second.

What runs is the same: its code, arguments, environment, working directory and standard streams.
Tests of what a start takes, and of signals to a command, start the real program.
"""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).parent
NUMBER_BYTES = 4


@dataclass(frozen=True)
class Warm:
    """A program that is forked."""

    place: Path
    """The socket of its server."""

    def write_script(self, file: Path) -> None:
        """Write a script to call instead of the program."""
        client = (HERE / "client.py").read_text(encoding="utf-8")
        file.write_text(f"#!{sys.executable} -IS\n{client}\n\nrun({str(self.place)!r})\n")
        file.chmod(0o755)

    def start(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, output: IO[bytes]
    ) -> "Forked":
        """Start the program with these arguments, in a session of its own."""
        variables = [f"{name}={value}" for name, value in env.items()]
        parts = ["session", str(cwd), str(len(command)), *command, *variables]
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.place))
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(connection, [b"."], streams)
        connection.sendall(b"\0".join(map(os.fsencode, parts)))
        connection.shutdown(socket.SHUT_WR)
        return Forked(connection)


class Forked:
    """What of `subprocess.Popen` agents need, for a process that another one has forked."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = self._number()
        self._code: int | None = None

    def _number(self) -> int:
        found = self._connection.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        return int.from_bytes(found, sys.byteorder, signed=True)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self._code is None and select.select([self._connection], [], [], 0)[0]:
            self._code = self._number()
            self._connection.close()
        return self._code

    def wait(self, timeout: float) -> int:
        """Return the exit code. Raises TimeoutExpired, as Popen does."""
        if self._code is None:
            select.select([self._connection], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("a forked program", timeout)
        return code


@contextmanager
def warm(program: str, folder: Path, env: Mapping[str, str]) -> Iterator[Warm]:
    """Import a program that server.py knows, in an environment, and fork it during a block.

    `env` is what /proc shows as the environment of all of its processes. Those of commands have
    ended at the end of the block.
    """
    place = folder / f"warm-{program}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(128)
        server = subprocess.Popen(
            [sys.executable, "-P", HERE / "server.py", program, str(listener.fileno())],
            env=env,
            stdin=subprocess.PIPE,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    try:
        yield Warm(place)
    finally:
        server.communicate()  # which closes its standard input
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
