"""The journal: outcomes are stored locally before anything is written to AWS.

    agent                        state service          table           lane
    outcome  --------------->    stored
    (the slot is free)
    settle  ------------------------------------->      completed
    release the message  --------------------------------------->       deleted
    removed  --------------->    (mark)

If the agent is killed at any point, the next agent of this name finds the outcome and goes on;
the table accepts a repeated write and refuses one that came too late. While AWS cannot be
reached, is slow or throttles, outcomes wait here, and are reported in order when it answers.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.record import OutcomeRecord, decide
from ec2_agent.retry import Backoff, aws_backoff
from ec2_agent.state.client import NotReached, StateRefused
from ec2_agent.state.records import StateRecord, WriteResult
from joblane.job.head import Head
from joblane.job.judge import AttemptResult
from joblane.job.outcome import OutcomeTransition
from joblane.state.retention import Retention

KIND = "outcome"

ROOM = 1000
"""Outcomes that may wait. A job is taken only while its outcome would have room: a heartbeat lists
the jobs whose outcomes wait, and stays below 32 KB."""

ASIDE_S = 60.0
"""Pause before an outcome that AWS rejected is tried again."""

RELEASES = 16
"""Messages that are released at the same time."""

_CREATED, _DELIVERED = 1, 2
"""Versions of a record."""


class Undelivered(Exception):
    """AWS did not take an outcome now; the text says why."""

    def __init__(self, text: str, *, rejected: bool = False) -> None:
        """`rejected`: AWS rejects this outcome alone; others need not wait for it."""
        super().__init__(text)
        self.rejected = rejected


class Reporter(Protocol):
    """Reports outcomes to AWS: see `report.py`."""

    async def settle(self, outcome: OutcomeRecord) -> OutcomeTransition | None:
        """Write an outcome; returns what was written, None if it came too late.

        Raises Undelivered.
        """
        ...

    async def release_message(
        self, outcome: OutcomeRecord, transition: OutcomeTransition | None
    ) -> bool:
        """Delete the job's message or give it back; False if SQS did not answer."""
        ...


class JournalStore(Protocol):
    """What a journal needs of the state service: see `StateClient`."""

    async def create(self, records: Sequence[StateRecord]) -> list[WriteResult]:
        """Store new records. Raises NotReached or StateRefused."""
        ...

    def store_later(self, record: StateRecord) -> bool:
        """Store a record soon; False if there is no room for it."""
        ...

    def list_all(self, kind: str) -> AsyncIterator[StateRecord]:
        """Read all records of a kind in order."""
        ...


@dataclass(eq=False, slots=True)
class Entry:
    """One outcome that waits."""

    record: StateRecord
    outcome: OutcomeRecord
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Journal:
    """The outcomes of one agent that have not been reported yet."""

    def __init__(
        self,
        store: JournalStore,
        reporter: Reporter,
        clock: Callable[[], float],
        backoff: Callable[[], Backoff] = aws_backoff,
    ) -> None:
        """`clock` gives Unix seconds; `backoff` makes the pauses of one series of failures."""
        self._backoff = backoff
        self._store = store
        self._reporter = reporter
        self._clock = clock
        self._unsettled: list[Entry] = []
        """To be settled, in order."""
        self._aside: set[Entry] = set()
        """Rejected by AWS, or settled with a message that has not been released."""
        self._last = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._catching_up = False
        self._gate = asyncio.Semaphore(RELEASES)
        self.trouble: str | None = None
        """Why outcomes wait; None while each is reported at once."""

    @property
    def room(self) -> int:
        """How many more outcomes may be added."""
        return ROOM - self.waiting

    @property
    def waiting(self) -> int:
        """Number of outcomes that have not been reported."""
        return len(self._unsettled) + len(self._aside)

    @property
    def since_ms(self) -> int | None:
        """When the oldest of them was decided, in Unix milliseconds."""
        return min((e.outcome.transition.step.at_ms for e in self._entries()), default=None)

    @property
    def oldest_s(self) -> float:
        """For how many seconds the oldest of them has waited."""
        since_ms = self.since_ms
        return 0.0 if since_ms is None else self._clock() - since_ms / 1000

    @property
    def job_ids(self) -> list[str]:
        """Jobs whose outcomes wait: the heartbeat lists them, so that no agent takes them over."""
        return [e.outcome.head.job_id for e in self._entries() if not e.settled.is_set()]

    def records(self) -> list[StateRecord]:
        """Records that a state service without its memory is sent again."""
        return [entry.record for entry in self._entries()]

    def _entries(self) -> Iterator[Entry]:
        return chain(self._unsettled, self._aside)

    async def put(self, outcome: OutcomeRecord) -> None:
        """Store an outcome and report it; returns when the slot may be used again.

        That is when it is stored. If it cannot be stored, it is when AWS has it: until then the
        outcome is in memory alone.
        """
        entry = Entry(self._record(outcome), outcome)
        try:
            await self._store.create([entry.record])
        except (NotReached, StateRefused) as error:
            events.outcome_not_durable(outcome.head, error)
            self._add(entry)
            await entry.settled.wait()
        else:
            self._add(entry)

    async def recover(self) -> list[OutcomeRecord]:
        """Read the outcomes that an earlier process of this agent stored; oldest first.

        Nothing is reported before `resume`: the agent's heartbeat must list these jobs first.
        Raises NotReached or StateRefused.
        """
        async for record in self._store.list_all(KIND):
            try:
                outcome = OutcomeRecord.decode(record.body or "")
            except (ValueError, KeyError, TypeError) as error:
                events.outcome_unreadable(record.id, error)
                continue
            self._unsettled.append(Entry(record, outcome))
            self._last = max(self._last, int(record.id.partition(".")[0]))
        if self._unsettled:
            self.trouble = "the agent was restarted"
            events.outcomes_found(self.waiting)
        return [entry.outcome for entry in self._unsettled]

    def resume(self) -> None:
        """Report what was recovered."""
        if self._unsettled:
            self._catch_up()

    async def flush(self, seconds: float | None = None) -> bool:
        """Report until no outcome waits, `seconds` at most. Returns whether none does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
        return not self.waiting

    def _record(self, outcome: OutcomeRecord) -> StateRecord:
        # In order, also when the clock is set back or two end in one millisecond.
        self._last = max(self._last + 1, int(self._clock() * 1000))
        head = outcome.head
        id_ = f"{self._last:015d}.{head.job_id}.{head.epoch}"
        return StateRecord(KIND, id_, _CREATED, outcome.encode())

    def _add(self, entry: Entry) -> None:
        self._unsettled.append(entry)
        if self.trouble is None:
            self._start(self._settle_now(entry))

    async def _settle_now(self, entry: Entry) -> None:
        """Settle an outcome that was added while none waited."""
        failure = await self._settle(entry)
        if failure is not None and self.trouble is None:
            self.trouble = str(failure)
            events.outcomes_wait(str(failure))
            self._catch_up()

    def _catch_up(self) -> None:
        if not self._catching_up:
            self._catching_up = True
            self._start(self._settle_in_order())

    async def _settle_in_order(self) -> None:
        """Settle the oldest until none is left; those added meanwhile wait behind it."""
        backoff = self._backoff()
        while self._unsettled:
            failure = await self._settle(self._unsettled[0])
            if failure is None:
                backoff.reset()
                continue
            self.trouble = str(failure)
            await backoff.pause()
        self._catching_up, self.trouble = False, None
        events.outcomes_delivered()

    async def _settle(self, entry: Entry) -> Undelivered | None:
        """Try once; returns the error when AWS is unavailable, which stops the others as well."""
        async with entry.lock:
            if entry.settled.is_set() or entry in self._aside:
                return None
            failure: Undelivered | None = None
            transition: OutcomeTransition | None = None
            try:
                transition = await self._reporter.settle(entry.outcome)
            except Undelivered as undelivered:
                failure = undelivered
            except Exception as defect:  # noqa: BLE001 - logged, and tried again
                events.outcome_defect(entry.outcome.head, defect)
                failure = Undelivered("unexpected error, see the agent's log", rejected=True)
            if failure is not None and not failure.rejected:
                return failure
            self._unsettled.remove(entry)
            self._aside.add(entry)
            if failure is None:
                entry.settled.set()
                self._start(self._release(entry, transition))
            else:
                events.outcome_refused(entry.outcome.head, str(failure))
                self._start(self._settle_later(entry))
            return None

    async def _settle_later(self, entry: Entry) -> None:
        """Try an outcome again that AWS rejected, after all others."""
        await asyncio.sleep(ASIDE_S)
        self._aside.discard(entry)
        self._unsettled.append(entry)
        self._catch_up()

    async def _release(self, entry: Entry, transition: OutcomeTransition | None) -> None:
        """Release the message, retried until SQS answers, and remove the outcome."""
        backoff = self._backoff()
        while not await self._release_once(entry, transition):
            await backoff.pause()
        self._aside.discard(entry)
        if not self._store.store_later(StateRecord(KIND, entry.record.id, _DELIVERED, None)):
            events.outcome_delivered_twice(entry.record.id)

    async def _release_once(self, entry: Entry, transition: OutcomeTransition | None) -> bool:
        async with self._gate:
            return await self._reporter.release_message(entry.outcome, transition)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@dataclass(frozen=True, slots=True)
class OutcomeRecorder:
    """Records the outcomes of one agent's attempts."""

    journal: Journal
    retention: Retention
    clock: Callable[[], float]
    """Unix seconds."""
    rng: random.Random
    """For the jitter of retries."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)

    async def record(self, head: Head, delivery: Delivery, result: AttemptResult) -> None:
        """Record an attempt's result; returns when its slot may be used again (`Journal.put`)."""
        await self.journal.put(decide(head, delivery, result, self.retention, self.rng))
