"""Rounds of requests to the backend, and the backend's maintenance.

All requests that wait make one round. Consecutive writes in a round are one call of the backend,
so one commit serves all of them.
"""

import time

from ec2_agent.state import events
from ec2_agent.state.protocol import StateRefused, StateRequest, frame, record_json
from ec2_agent.state.records import Verb, prepare

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from ec2_agent.state.backend import Backend

    T = TypeVar("T")

CHECK_S = 5.0
TIDY_S = 60.0
HUNG_S = 10.0
"""A round that takes longer is reported as trouble."""


class Rounds:
    """Works on one backend; one thread at a time."""

    def __init__(self, backend: "Backend", sync_interval: float) -> None:
        self._backend = backend
        self._sync_interval = sync_interval
        self._began: float | None = None
        self._trouble: StateRefused | None = None
        self._checked = self._tidied = self._synced = time.monotonic()
        self._unsynced = False
        self._call_backend(self._backend.check)  # before the first health request

    @property
    def pause(self) -> float:
        """Seconds until `maintain` has something to do."""
        return min(CHECK_S, self._sync_interval) if self._unsynced else CHECK_S

    def health(self) -> tuple[str, str] | None:
        """What is wrong, as a code and a message; from any thread."""
        trouble, began = self._trouble, self._began
        if trouble is not None:
            return trouble.code, str(trouble)
        took = 0.0 if began is None else time.monotonic() - began
        if took > HUNG_S:
            return "unavailable", f"the backend has not answered for {took:.0f} s"
        return None

    def do(self, requests: "Sequence[tuple[T, StateRequest]]") -> "list[tuple[T, bytes]]":
        """Answer requests in order; each comes with the peer that its answer is for."""
        self._began = time.monotonic()
        answers = list(self._answers(requests))
        self._began = None
        return answers

    def maintain(self) -> None:
        """Check, sync and clean up the backend, as far as each is due."""
        now = time.monotonic()
        if self._unsynced and now - self._synced >= self._sync_interval:
            self._call_backend(self._backend.sync)
            self._synced, self._unsynced = now, False
        if now - self._checked >= CHECK_S:
            self._call_backend(self._backend.check)
            self._checked = now
        if now - self._tidied >= TIDY_S:
            self._call_backend(lambda: self._backend.tidy(time.time()))
            self._tidied = now

    def close(self) -> None:
        """Close the backend."""
        self._call_backend(self._backend.close)

    def _answers(self, requests: "Sequence[tuple[T, StateRequest]]") -> "Iterator[tuple[T, bytes]]":
        writes: list[tuple[T, StateRequest]] = []
        for peer, request in requests:
            if request.records:
                writes.append((peer, request))
                continue
            yield from self._write(writes)
            writes = []
            yield peer, self._read(request)
        yield from self._write(writes)

    def _write(self, requests: "list[tuple[T, StateRequest]]") -> "Iterator[tuple[T, bytes]]":
        if not requests:
            return
        now = time.time()
        writes = [
            prepare(Verb(request.op), record, now)
            for _, request in requests
            for record in request.records
        ]
        try:
            results = iter(self._backend.write(writes, now))
        except Exception as error:  # noqa: BLE001 - sent as the response
            refusal = self._refusal(error)
            yield from ((peer, error_frame(refusal, request.id)) for peer, request in requests)
            return
        self._unsynced = self._sync_interval > 0
        self._note_recovery()
        for peer, request in requests:
            own = [next(results) for _ in request.records]
            yield peer, frame({"id": request.id, "results": own})

    def _read(self, request: StateRequest) -> bytes:
        now = time.time()
        try:
            if request.op == "get":
                found = self._backend.get(request.kind, request.ids, now)
                return frame({"id": request.id, "records": [record_json(r) for r in found]})
            page, following = self._backend.list(request.kind, request.after, request.limit, now)
        except Exception as error:  # noqa: BLE001 - sent as the response
            return error_frame(self._refusal(error), request.id)
        records = [record_json(record) for record in page]
        return frame({"id": request.id, "records": records, "next": following})

    def _call_backend(self, call: "Callable[[], None]") -> None:
        """Call maintenance of the backend; health reports its errors."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - reported by health
            self._refusal(error)
        else:
            self._note_recovery()

    def _refusal(self, error: Exception) -> StateRefused:
        if not isinstance(error, StateRefused):
            events.backend_defect(error)
            error = StateRefused(
                "internal", "unexpected error; the service's log has the stack trace"
            )
        elif self._trouble is None or str(self._trouble) != str(error):
            events.backend_failed(error.code, error)
        self._trouble = error
        return error

    def _note_recovery(self) -> None:
        if self._trouble is not None:
            events.backend_works()
        self._trouble = None


def error_frame(error: StateRefused, request_id: int | None = None) -> bytes:
    """Encode an error response; without an id if the request's id could not be read."""
    described = {"code": error.code, "message": str(error), "passing": error.passing}
    return frame({"id": request_id, "error": described})
