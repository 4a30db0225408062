"""The sockets of the state service: one loop reads requests and sends responses.

Requests that arrive together make a round (`rounds.py`). A local backend does its rounds in the
loop: while one round commits, the next one gathers, and no second thread competes for the
interpreter. A backend that calls AWS does them in a thread, so that health is answered meanwhile.
"""

import os
import selectors
import socket
import time

from ec2_agent.processes import is_ours, peer_of
from ec2_agent.state import events
from ec2_agent.state.protocol import MAX_FRAME, BadFrame, StateRequest, frame, parse
from ec2_agent.state.rounds import Rounds, error_frame

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from ec2_agent.state.worker import Worker

MOST_CONNECTIONS = 64
MOST_WAITING = 64
"""Requests of one connection that wait for responses; above that it is not read."""

MOST_UNREAD = 32 * MAX_FRAME
"""Bytes of responses that a peer has not read; above that its connection is closed."""

READ_BYTES = 256 * 1024

ACCEPT_PAUSE_S = 0.1
"""Pause after a connection that could not be accepted: it stays pending, and accept would spin."""


class Peer:
    """One connection."""

    __slots__ = ("closed", "events", "sock", "unread", "unsent", "waiting")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unread = bytearray()
        self.unsent = bytearray()
        self.waiting = 0
        self.events = 0
        """Events that the selector waits for; 0: not registered."""
        self.closed = False


Asked = list[tuple[Peer, StateRequest]]
Answers = list[tuple[Peer, bytes]]


class Server:
    """Serves one backend on one listening socket."""

    def __init__(
        self,
        name: str,
        rounds: Rounds,
        listener: socket.socket,
        worker: "Worker | None" = None,
    ) -> None:
        """A worker does the rounds of a backend that calls AWS."""
        self._name = name
        self._rounds = rounds
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._peers: set[Peer] = set()
        self._asked: Asked = []
        self._worker = worker
        self._stopping = False

    def run(self, stop: int) -> None:
        """Serve until `stop` is readable or closed; then answer what was received, and close."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(stop, selectors.EVENT_READ, self._stop)
        if self._worker:
            self._selector.register(self._worker.fd, selectors.EVENT_READ, self._collect)
        while not self._stopping:
            for key, ready in self._selector.select(None if self._worker else self._rounds.pause):
                if isinstance(key.data, Peer):
                    self._serve(key.data, ready)
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

    def _stop(self) -> None:
        self._stopping = True

    def _dispatch(self) -> None:
        """Do the requests that were received, here or in the worker."""
        while self._asked:
            asked, self._asked = self._asked, []
            if self._worker:
                self._worker.take(asked)
            else:
                self._deliver(self._rounds.do(asked))
        if not self._worker:
            self._rounds.maintain()

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
                self._read_frames(peer)  # what was not read while too many requests waited

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:  # no descriptors left, or the peer has closed
            events.connection_not_accepted(error)
            time.sleep(ACCEPT_PAUSE_S)
            return
        if not is_ours(sock):
            events.connection_refused(peer_of(sock)[1])
            sock.close()
            return
        if len(self._peers) >= MOST_CONNECTIONS:
            events.too_many_connections(MOST_CONNECTIONS)
            sock.close()
            return
        sock.setblocking(False)
        peer = Peer(sock)
        self._peers.add(peer)
        self._watch(peer)

    def _serve(self, peer: Peer, ready: int) -> None:
        if ready & selectors.EVENT_WRITE:
            self._send(peer)
        if ready & selectors.EVENT_READ and not peer.closed:
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
        self._queue(peer, error_frame(BadFrame("too_large", text)))
        self._send(peer)
        self._drop(peer)

    def _take(self, peer: Peer, line: bytes) -> None:
        try:
            request = parse(line)
        except BadFrame as wrong:
            self._queue(peer, error_frame(wrong, wrong.request_id))
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
            events.peer_dropped()
            self._drop(peer)
            return
        self._watch(peer)

    def _watch(self, peer: Peer) -> None:
        """Select the events to wait for; no reads while too many of its requests wait."""
        if peer.closed:
            return
        wanted = selectors.EVENT_WRITE if peer.unsent else 0
        if peer.waiting < MOST_WAITING:
            wanted |= selectors.EVENT_READ
        if wanted == peer.events:
            return
        if not peer.events:
            self._selector.register(peer.sock, wanted, peer)
        elif wanted:
            self._selector.modify(peer.sock, wanted, peer)
        else:
            self._selector.unregister(peer.sock)
        peer.events = wanted

    def _drop(self, peer: Peer) -> None:
        if peer.closed:
            return
        peer.closed = True
        if peer.events:
            self._selector.unregister(peer.sock)
        peer.sock.close()
        self._peers.discard(peer)
