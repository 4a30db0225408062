"""A thread that does rounds, for a backend that calls AWS."""

import queue
import socket
import threading
from typing import TYPE_CHECKING

from ec2_agent.state.rounds import Rounds

if TYPE_CHECKING:
    from ec2_agent.state.server import Answers, Asked


class Worker:
    """Does rounds in a thread of its own."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._todo: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Answers] = queue.SimpleQueue()
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._thread = threading.Thread(target=self._work, name="backend", daemon=True)
        self._thread.start()

    @property
    def fd(self) -> socket.socket:
        """Readable when there are answers."""
        return self._wake_r

    def take(self, asked: "Asked") -> None:
        """Queue requests."""
        self._todo.put(asked)

    def answers(self) -> "Answers":
        """Return the responses since the last call."""
        try:
            while self._wake_r.recv(4096):
                pass
        except BlockingIOError:
            pass
        found: Answers = []
        while not self._done.empty():
            found += self._done.get()
        return found

    def end(self) -> None:
        """Finish the queued requests and end the thread."""
        self._todo.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            asked: Asked = []
            ended = False
            try:
                found = self._todo.get(timeout=self._rounds.pause)
                while found is not None:
                    asked += found
                    found = self._todo.get_nowait()
                ended = True
            except queue.Empty:
                pass
            if asked:
                self._done.put(self._rounds.do(asked))
                self._wake_w.send(b"!")
            if ended:
                return
            self._rounds.maintain()
