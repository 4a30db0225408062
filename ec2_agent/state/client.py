"""Client of the state service, with retries.

Every operation is safe to retry: a write carries its version, so the second of two equal writes
gets the response of the first (`records.py`), and reads change nothing. A refusal that is not
`passing` is not retried.

A client belongs to one event loop. A thousand operations that wait for twenty connections are a
thousand tasks rather than threads, and a cancelled task returns its connection.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ec2_agent.retry import Backoff, RetryPolicy, retry
from ec2_agent.state import events
from ec2_agent.state.pool import NotReached, Pool, Stats
from ec2_agent.state.protocol import MAX_FRAME, StateRefused, record_from, record_json
from ec2_agent.state.records import BATCH, StateRecord, Verb, WriteResult
from ec2_agent.state.settings import StateSettings

__all__ = ["NotReached", "StateClient", "StateRefused", "Stats"]

FRAME_ROOM = MAX_FRAME // 2
"""Bytes of bodies in one request: JSON writes a quotation mark as two bytes."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """Health of a service."""

    pid: int
    why: str | None
    """What is wrong with its backend; None if it is healthy."""


class StateClient:
    """Stores and reads records through the state service."""

    def __init__(
        self,
        path: Path,
        settings: StateSettings,
        backoff: Callable[[RetryPolicy], Backoff] = Backoff,
    ) -> None:
        """`path` is the service's socket; `backoff` makes the pauses between tries."""
        self._backoff = backoff
        self._settings = settings
        self._pool = Pool(path, settings)
        self._later: dict[tuple[str, str], StateRecord] = {}
        self._sources: list[Callable[[], Iterable[StateRecord]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._sent = asyncio.Condition()

    async def create(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Store new records. Raises StateRefused or NotReached, and so does every call here."""
        return await self._write(Verb.CREATE, records)

    async def update(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Replace records that are there, each by a newer version."""
        return await self._write(Verb.UPDATE, records)

    async def delete(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Remove records; their versions must be newer than what is there."""
        return await self._write(Verb.DELETE, records)

    async def sync(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Make records be as they are here, unless what is there is newer."""
        return await self._write(Verb.SYNC, records)

    async def get(self, kind: str, ids: Sequence[str]) -> list[StateRecord]:
        """Read records, in the order of `ids`, without those that are not there."""
        found: list[StateRecord] = []
        for start in range(0, len(ids), BATCH):
            some = list(ids[start : start + BATCH])
            answer = await self._ask("get", {"kind": kind, "ids": some})
            found += [record_from(value) for value in answer["records"]]
        return found

    async def list_all(self, kind: str) -> AsyncIterator[StateRecord]:
        """Read all records of a kind in the order of their ids, a page at a time."""
        after: str | None = None
        while True:
            fields = {"kind": kind} if after is None else {"kind": kind, "after": after}
            answer = await self._ask("list", fields)
            for value in answer["records"]:
                yield record_from(value)
            after = answer["next"]
            if after is None:
                return

    async def health(self) -> ServiceHealth:
        """Read the service's health, without retries."""
        answer = await self._ask("health", {}, retries=0)
        why = None if answer["status"] == "ok" else f"{answer['code']}: {answer['why']}"
        return ServiceHealth(answer["pid"], why)

    def store_later(self, record: StateRecord) -> bool:
        """Store a record soon, without waiting for it.

        A newer version replaces a waiting one of the same record. When `buffer` records wait,
        another one is refused, and False is returned.
        """
        key = (record.kind, record.id)
        waiting = self._later.get(key)
        if waiting is None and len(self._later) >= self._settings.buffer:
            return False
        if waiting is None or waiting.version < record.version:
            self._later[key] = record
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_later(), name="state, later updates")
        return True

    @property
    def waiting(self) -> int:
        """Number of records from `store_later` that are not stored yet."""
        return len(self._later)

    async def flush(self) -> None:
        """Wait until all records from `store_later` are stored."""
        async with self._sent:
            await self._sent.wait_for(lambda: not self._later)

    def resync_from(self, source: Callable[[], Iterable[StateRecord]]) -> None:
        """Add a source of records that a restarted service must have."""
        self._sources.append(source)

    async def resync(self) -> None:
        """Send the records of all sources to a service that has been restarted."""
        records = [record for source in self._sources for record in source()]
        if records:
            results = await self.sync(records)
            events.state_told_again(len(results))

    def stats(self) -> Stats:
        """Return the pool's counters."""
        return self._pool.stats()

    def close_spare(self) -> None:
        """Close the connections that an idle agent does not need."""
        self._pool.close_spare()

    async def close(self) -> None:
        """Store waiting records, for `shutdown_timeout` at most, and close all connections."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdown_timeout):
                await self.flush()
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
        if self._later:
            events.later_updates_lost(len(self._later))
        self._pool.close()

    async def _write(self, verb: Verb, records: Sequence[StateRecord]) -> list[WriteResult]:
        results: list[WriteResult] = []
        for batch in _batches(records):
            answer = await self._ask(verb, {"records": [record_json(r) for r in batch]})
            results += [WriteResult(value) for value in answer["results"]]
        return results

    async def _send_later(self) -> None:
        """Send waiting records, oldest first, until none waits."""
        while self._later:
            batch = next(_batches(list(self._later.values())[:BATCH]))
            try:
                await self.sync(batch)
            except (NotReached, StateRefused) as error:
                if getattr(error, "code", None) not in ("bad_request", "too_large"):
                    events.later_updates_wait(error)
                    await asyncio.sleep(self._settings.reconnect)
                    continue
                events.later_updates_refused(len(batch), error)
            for record in batch:
                key = (record.kind, record.id)
                if self._later.get(key) is record:  # else a newer version came meanwhile
                    del self._later[key]
        self._sending = None
        async with self._sent:
            self._sent.notify_all()

    async def _ask(
        self, op: str, fields: dict[str, Any], retries: int | None = None
    ) -> dict[str, Any]:
        settings = self._settings
        policy = RetryPolicy(
            settings.retry_min,
            settings.retry_max,
            factor=4.0,
            retries=settings.retries if retries is None else retries,
        )
        return await retry(
            lambda: self._ask_once(op, fields), self._backoff(policy), retryable=_passing
        )

    async def _ask_once(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._pool.ask(op, fields)
        except TimeoutError:
            raise NotReached("no answer in time") from None
        if "error" in answer:
            error = answer["error"]
            raise StateRefused(error["code"], error["message"], passing=error["passing"])
        return answer


def _passing(error: Exception) -> bool:
    """Whether a failed request is worth another try."""
    return error.passing if isinstance(error, StateRefused) else isinstance(error, NotReached)


def _batches(records: Sequence[StateRecord]) -> Iterator[list[StateRecord]]:
    """Cut into requests of at most `BATCH` records and about `FRAME_ROOM` bytes, in order."""
    batch: list[StateRecord] = []
    size = 0
    for record in records:
        own = len((record.body or "").encode())
        if batch and (len(batch) == BATCH or size + own > FRAME_ROOM):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += own
    if batch:
        yield batch
