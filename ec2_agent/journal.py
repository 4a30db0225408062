"""Outcomes on their way to AWS: durable here before anything is written there.

    agent                        state service          table           lane
    outcome  --------------->    stored
    (the slot is free)
    settle  ------------------------------------->      completed
    let go of the message  ------------------------------------->       deleted
    removed  --------------->    (mark)

Killed at any point, the next agent of this name finds the outcome and goes on; the table refuses
nothing that is merely repeated, and everything that came too late. While AWS cannot be reached,
is slow or throttles, outcomes wait here and go out in order when it answers again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Protocol

from ec2_agent.calls import pause_s
from ec2_agent.events import (
    OutcomeDefect,
    OutcomeDeliveredTwice,
    OutcomeNotDurable,
    OutcomeRefused,
    OutcomesDelivered,
    OutcomesFound,
    OutcomesWait,
    OutcomeUnreadable,
)
from ec2_agent.finished import Finished, Way
from ec2_agent.log_event import tell
from ec2_agent.state.client import NotReached, StateRefused
from ec2_agent.state.records import Record, Result

KIND = "outcome"

ROOM = 1000
"""Outcomes that may wait. A job is taken only while there is room for its outcome as well: a
heartbeat lists what waits, and stays below 32 KB."""

ASIDE_S = 60.0
"""Before one is tried again that is refused for itself."""

LETTING_GO = 16
"""Messages that are let go of at once."""

_CREATED, _DELIVERED = 1, 2
"""Versions of a record."""


class Undelivered(Exception):
    """AWS did not take an outcome now; the text says why."""

    def __init__(self, text: str, *, own_fault: bool = False) -> None:
        """`own_fault`: it is this outcome that is refused; the others need not wait for it."""
        super().__init__(text)
        self.own_fault = own_fault


class Courier(Protocol):
    """Brings outcomes to AWS: see `report.py`."""

    async def settle(self, finished: Finished) -> Way | None:
        """Write an outcome; returns which way, None if it came too late. Raises Undelivered."""
        ...

    async def let_go(self, finished: Finished, way: Way | None) -> bool:
        """Let go of the job's message; False if SQS did not answer."""
        ...


class Store(Protocol):
    """What a journal needs of the state service: see `StateClient`."""

    async def create(self, records: Sequence[Record]) -> list[Result]:
        """Store new records. Raises NotReached or StateRefused."""
        ...

    def later(self, record: Record) -> bool:
        """Store a record some time soon; False if there is no room for that."""
        ...

    def list_all(self, kind: str) -> AsyncIterator[Record]:
        """Read all records of a kind in order."""
        ...


@dataclass(eq=False, slots=True)
class Entry:
    """One outcome that waits."""

    record: Record
    finished: Finished
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Journal:
    """The outcomes of one agent that have not been delivered yet."""

    def __init__(self, store: Store, courier: Courier, clock: Callable[[], float]) -> None:
        """`clock` gives Unix seconds."""
        self._store = store
        self._courier = courier
        self._clock = clock
        self._unsettled: list[Entry] = []
        """To be settled, in order."""
        self._aside: set[Entry] = set()
        """Refused for themselves, or settled with a message that is still held."""
        self._last = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._catching_up = False
        self._gate = asyncio.Semaphore(LETTING_GO)
        self.trouble: str | None = None
        """Why outcomes wait; None while they go out as they come."""

    @property
    def room(self) -> int:
        """How many more outcomes may come."""
        return ROOM - self.waiting

    @property
    def waiting(self) -> int:
        """Outcomes that have not been delivered."""
        return len(self._unsettled) + len(self._aside)

    @property
    def since_ms(self) -> int | None:
        """When the oldest of them was decided."""
        return min((e.finished.way.step.at_ms for e in self._entries()), default=None)

    @property
    def oldest_s(self) -> float:
        """For how many seconds the oldest of them has waited."""
        since_ms = self.since_ms
        return 0.0 if since_ms is None else self._clock() - since_ms / 1000

    @property
    def job_ids(self) -> list[str]:
        """Jobs whose outcomes wait: nobody else may take them for lost."""
        return [e.finished.head.job_id for e in self._entries() if not e.settled.is_set()]

    def records(self) -> list[Record]:
        """What a state service that has forgotten must be told again."""
        return [entry.record for entry in self._entries()]

    def _entries(self) -> Iterator[Entry]:
        return chain(self._unsettled, self._aside)

    async def put(self, finished: Finished) -> None:
        """Make an outcome durable, and have it delivered; returns when the slot may be reused.

        That is when it is stored. If it cannot be stored, it is when AWS has it: the slot stays
        taken, and meanwhile the outcome is in memory alone.
        """
        entry = Entry(self._record(finished), finished)
        try:
            await self._store.create([entry.record])
        except (NotReached, StateRefused) as error:
            tell(OutcomeNotDurable(finished.head.job_id, error))
            self._add(entry)
            await entry.settled.wait()
        else:
            self._add(entry)

    async def recover(self) -> list[Finished]:
        """Take up what an earlier life of this agent has left; returns it, oldest first.

        Nothing is delivered before `resume`: the agent must first say that these jobs are its
        own. Raises NotReached or StateRefused.
        """
        async for record in self._store.list_all(KIND):
            try:
                finished = Finished.decode(record.body or "")
            except (ValueError, KeyError, TypeError) as error:
                tell(OutcomeUnreadable(record.id, error))
                continue
            self._unsettled.append(Entry(record, finished))
            self._last = max(self._last, int(record.id.partition(".")[0]))
        if self._unsettled:
            self.trouble = "this agent was started again"
            tell(OutcomesFound(self.waiting))
        return [entry.finished for entry in self._unsettled]

    def resume(self) -> None:
        """Deliver what was recovered."""
        if self._unsettled:
            self._catch_up()

    async def flush(self, seconds: float | None = None) -> bool:
        """Wait until nothing waits, at most so many seconds. Returns whether that is so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
        return not self.waiting

    def _record(self, finished: Finished) -> Record:
        # In order, also when the clock is set back or two end in one millisecond.
        self._last = max(self._last + 1, int(self._clock() * 1000))
        head = finished.head
        id_ = f"{self._last:015d}.{head.job_id}.{head.epoch}"
        return Record(KIND, id_, _CREATED, finished.encode())

    def _add(self, entry: Entry) -> None:
        self._unsettled.append(entry)
        if self.trouble is None:
            self._start(self._settle_now(entry))

    async def _settle_now(self, entry: Entry) -> None:
        """Settle one that came while all went well."""
        failure = await self._settle(entry)
        if failure is not None and self.trouble is None:
            self.trouble = str(failure)
            tell(OutcomesWait(str(failure)))
            self._catch_up()

    def _catch_up(self) -> None:
        if not self._catching_up:
            self._catching_up = True
            self._start(self._settle_in_order())

    async def _settle_in_order(self) -> None:
        """Settle the oldest until none is left; those that come meanwhile wait behind it."""
        fails = 0
        while self._unsettled:
            failure = await self._settle(self._unsettled[0])
            if failure is None:
                fails = 0
                continue
            self.trouble = str(failure)
            await asyncio.sleep(pause_s(fails))
            fails += 1
        self._catching_up, self.trouble = False, None
        tell(OutcomesDelivered())

    async def _settle(self, entry: Entry) -> Undelivered | None:
        """Try once; returns what keeps others from being settled as well."""
        async with entry.lock:
            if entry.settled.is_set() or entry in self._aside:
                return None
            failure: Undelivered | None = None
            way: Way | None = None
            try:
                way = await self._courier.settle(entry.finished)
            except Undelivered as undelivered:
                failure = undelivered
            except Exception as defect:  # noqa: BLE001 - told, and tried again
                tell(OutcomeDefect(entry.finished.head.job_id), defect)
                failure = Undelivered("a defect, see the agent's log", own_fault=True)
            if failure is not None and not failure.own_fault:
                return failure
            self._unsettled.remove(entry)
            self._aside.add(entry)
            if failure is None:
                entry.settled.set()
                self._start(self._let_go(entry, way))
            else:
                tell(OutcomeRefused(entry.finished.head.job_id, str(failure)))
                self._start(self._settle_later(entry))
            return None

    async def _settle_later(self, entry: Entry) -> None:
        """Let one that is refused for itself come again, behind all others."""
        await asyncio.sleep(ASIDE_S)
        self._aside.discard(entry)
        self._unsettled.append(entry)
        self._catch_up()

    async def _let_go(self, entry: Entry, way: Way | None) -> None:
        """Let go of the message, however long SQS takes, and forget the outcome."""
        for tries in count():
            async with self._gate:
                done = await self._courier.let_go(entry.finished, way)
            if done:
                break
            await asyncio.sleep(pause_s(tries))
        self._aside.discard(entry)
        if not self._store.later(Record(KIND, entry.record.id, _DELIVERED, None)):
            tell(OutcomeDeliveredTwice(entry.record.id))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
