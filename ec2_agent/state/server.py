"""The sockets of the service: one loop reads requests, and sends their answers.

What arrived together makes a round (`rounds.py`). A backend on this machine does its rounds in the
loop itself: while one commits, the next gathers, and no second thread fights for the interpreter.
One that calls AWS does them in a thread, so that health is answered while AWS hangs.
"""

import os
import queue
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field

from ec2_agent.log_event import tell
from ec2_agent.state.backend import BackendError
from ec2_agent.state.events import (
    ConnectionNotAccepted,
    ConnectionRefused,
    PeerDropped,
    TooManyConnections,
)
from ec2_agent.state.protocol import MAX_FRAME, BadFrame, Request, frame, is_ours, parse, peer_of
from ec2_agent.state.rounds import Rounds, error_frame

MOST_CONNECTIONS = 64
MOST_WAITING = 64
"""Requests of one connection that wait for their answers; it is not read meanwhile."""

MOST_UNREAD = 32 * MAX_FRAME
"""Bytes of answers that a peer has not read; then it is not waited for any longer."""

READ_BYTES = 256 * 1024

ACCEPT_PAUSE_S = 0.1
"""After a connection that could not be accepted: it still waits, and would be tried in a circle."""


@dataclass(eq=False, slots=True)
class Peer:
    """One connection."""

    sock: socket.socket
    unread: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    waiting: int = 0
    events: int = 0
    """What the selector waits for; 0 is nothing."""
    closed: bool = False


Asked = list[tuple[Peer, Request]]
Answers = list[tuple[Peer, bytes]]


class Server:
    """Serves one backend on one listening socket until told to stop."""

    def __init__(
        self, name: str, rounds: Rounds, listener: socket.socket, *, threaded: bool
    ) -> None:
        self._name = name
        self._rounds = rounds
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._peers: set[Peer] = set()
        self._asked: Asked = []
        self._worker = Worker(rounds) if threaded else None

    def run(self, stop: int) -> None:
        """Serve until the descriptor `stop` is readable or at its end, then finish in order."""
        stopping = threading.Event()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(stop, selectors.EVENT_READ, stopping.set)
        if self._worker:
            self._selector.register(self._worker.fd, selectors.EVENT_READ, self._collect)
        while not stopping.is_set():
            for key, events in self._selector.select(None if self._worker else self._rounds.pause):
                if isinstance(key.data, Peer):
                    self._serve(key.data, events)
                else:
                    key.data()
            self._dispatch()
        self._listener.close()
        if self._worker:
            self._worker.end()
            self._collect()
        self._rounds.close()
        for peer in tuple(self._peers):
            self._drop(peer)

    def _dispatch(self) -> None:
        """Have what was asked answered, here or by the worker."""
        while self._asked:
            asked, self._asked = self._asked, []
            if self._worker:
                self._worker.take(asked)
            else:
                self._deliver(self._rounds.do(asked))
        if not self._worker:
            self._rounds.look_after()

    def _collect(self) -> None:
        if self._worker:
            self._deliver(self._worker.answers())

    def _deliver(self, answers: Answers) -> None:
        for peer, data in answers:
            peer.waiting -= 1
            self._queue(peer, data)
        for peer in {peer for peer, _ in answers}:
            self._send(peer)
            if not peer.closed:
                self._read_frames(peer)  # what was left unread while much of it waited

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:  # no descriptors left, or it has gone again
            tell(ConnectionNotAccepted(error))
            time.sleep(ACCEPT_PAUSE_S)
            return
        if not is_ours(sock):
            tell(ConnectionRefused(peer_of(sock)[1]))
            sock.close()
            return
        if len(self._peers) >= MOST_CONNECTIONS:
            tell(TooManyConnections(MOST_CONNECTIONS))
            sock.close()
            return
        sock.setblocking(False)
        peer = Peer(sock)
        self._peers.add(peer)
        self._watch(peer)

    def _serve(self, peer: Peer, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send(peer)
        if events & selectors.EVENT_READ and not peer.closed:
            try:
                data = peer.sock.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._drop(peer)
                return
            peer.unread += data
            self._read_frames(peer)

    def _read_frames(self, peer: Peer) -> None:
        while not peer.closed and peer.waiting < MOST_WAITING:
            end = peer.unread.find(b"\n")
            if end < 0:
                break
            line = bytes(peer.unread[:end])
            del peer.unread[: end + 1]
            if len(line) > MAX_FRAME:
                self._too_long(peer)
                return
            self._take(peer, line)
        if not peer.closed and peer.waiting < MOST_WAITING and len(peer.unread) > MAX_FRAME:
            self._too_long(peer)
            return
        self._watch(peer)

    def _too_long(self, peer: Peer) -> None:
        text = f"a frame has at most {MAX_FRAME} bytes; the connection is closed"
        self._queue(peer, error_frame(None, BackendError("too_large", text, passing=False)))
        self._send(peer)
        self._drop(peer)

    def _take(self, peer: Peer, line: bytes) -> None:
        try:
            request = parse(line)
        except BadFrame as wrong:
            refusal = BackendError(wrong.code, str(wrong), passing=False)
            self._queue(peer, error_frame(wrong.request_id, refusal))
            self._send(peer)
            return
        if request.op == "health":
            self._queue(peer, self._health(request.id))
            self._send(peer)
            return
        peer.waiting += 1
        self._asked.append((peer, request))

    def _health(self, request_id: int) -> bytes:
        wrong = self._rounds.health()
        answer = {"id": request_id, "status": "ok", "backend": self._name, "pid": os.getpid()}
        if wrong is not None:
            answer |= {"status": "failing", "code": wrong[0], "why": wrong[1]}
        return frame(answer)

    def _queue(self, peer: Peer, data: bytes) -> None:
        if not peer.closed:
            peer.unsent += data

    def _send(self, peer: Peer) -> None:
        if peer.closed:
            return
        try:
            while peer.unsent:
                del peer.unsent[: peer.sock.send(peer.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(peer)
            return
        if len(peer.unsent) > MOST_UNREAD:
            tell(PeerDropped())
            self._drop(peer)
            return
        self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        """Wait for what this peer can do next; nothing while its answers are being made."""
        if peer.closed:
            return
        events = selectors.EVENT_WRITE if peer.unsent else 0
        if peer.waiting < MOST_WAITING:
            events |= selectors.EVENT_READ
        if events == peer.events:
            return
        if not peer.events:
            self._selector.register(peer.sock, events, peer)
        elif events:
            self._selector.modify(peer.sock, events, peer)
        else:
            self._selector.unregister(peer.sock)
        peer.events = events

    def _drop(self, peer: Peer) -> None:
        if peer.closed:
            return
        peer.closed = True
        if peer.events:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        self._peers.discard(peer)


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

    def take(self, asked: Asked) -> None:
        """Do these after what was taken before."""
        self._todo.put(asked)

    def answers(self) -> Answers:
        """What has been done since this was last asked."""
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
        """Finish what was taken."""
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
            self._rounds.look_after()
