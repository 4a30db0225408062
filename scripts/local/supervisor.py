"""Keeps an agent running as its systemd unit does: supervisor.py COMMAND.

infra/agent/joblane-agent.service is the unit. An agent that ends with 0 was told to drain and is
not started again; any other end is followed by a new start, as when its launcher has died.
SIGTERM ends the agent and this program; SIGHUP restarts the agent, which hands its jobs over.
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

RESTART_S = 5.0
"""Seconds before a new start: `RestartSec` of the unit."""


class Supervisor:
    """Runs one program again and again."""

    def __init__(self, command: Sequence[str], restart_s: float = RESTART_S) -> None:
        self._command = command
        self._restart_s = restart_s
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def run(self) -> int:
        """Return the exit code of the program that was stopped or has drained."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGHUP, self._restart)
        while True:
            self._child = subprocess.Popen(self._command)
            #  supervisor        | scripts/down
            #  Popen: forks      |
            #                    | SIGTERM: _stop ends the child before, which has ended
            #  _child = the new  |
            if self._stopped.is_set():
                self._child.terminate()
            code = self._child.wait()
            if code == 0 or self._stopped.is_set():
                return code
            print(f"supervisor: the agent ended with {code}; starts again", flush=True)
            if self._stopped.wait(self._restart_s):
                return code

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped.set()
        self._send(signal.SIGTERM)

    def _restart(self, _number: int, _frame: FrameType | None) -> None:
        self._send(signal.SIGHUP)

    def _send(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)


if __name__ == "__main__":
    sys.exit(Supervisor(sys.argv[1:]).run())
