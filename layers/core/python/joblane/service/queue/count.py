"""Count activity in queues, from the change stream of the `jobs` table.

A batch of the stream becomes one write for each tenant, queue and minute in it. When a batch is
delivered again, its writes replace those of the first delivery (`joblane.aws.queue.counters`).

What limits of tenants bound, jobs by state, and jobs and items by queue and type, are written by
tenant and minute in the same way, and then added up for each tenant in the batch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from joblane.aws.job.stream import read_record
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.usage import UsageStore
from joblane.queue.activity import Change, fold
from joblane.queue.backlog import fold_backlog
from joblane.queue.state_counts import fold_states
from joblane.queue.usage import Accounts, fold_use
from joblane.service.decide_again import decide_again
from joblane.service.log import Log
from joblane.service.put_aside import PutAside, Record


@dataclass(frozen=True)
class Counting:
    """Counts batches of the stream."""

    counters: CounterStore
    usage: UsageStore
    aside: PutAside
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""
    stored: Callable[[Sequence[Record], Sequence[Change]], None] = lambda _records, _changes: None
    """Kicks the scaler for a batch, sends its ended jobs to the export and its spans, and writes
    its metrics, once everything else is stored: none of it can be taken back. Raises
    Unavailable."""

    def handle(self, records: Iterable[Record]) -> int:
        """Count a batch of stream records; returns how many counters were written.

        An unreadable record is put aside, so that it does not block the stream. Raises
        Unavailable when a counter cannot be written, and TryAgain; Lambda then
        delivers the batch again.
        """
        records = list(records)
        changes = list(self.aside.read(records, read_record))
        counters = fold(changes)
        for series, (sequence, tally) in counters.items():
            self.counters.put(series, sequence, tally)
        self._count_use(changes)
        self.stored(records, changes)
        self.log.info("counted", changes=len(changes), counters=len(counters))
        return len(counters)

    def _count_use(self, changes: Sequence[Change]) -> None:
        """Store what the changes add to the figures of tenants, and count those anew."""
        uses, states, backlogs = fold_use(changes), fold_states(changes), fold_backlog(changes)
        places = {**uses, **states, **backlogs}
        for place in places:
            self.usage.put(*place, uses.get(place), states.get(place), backlogs.get(place))
        first: dict[str, int] = {}
        for tenant, minute in places:
            first[tenant] = min(minute, first.get(tenant, minute))
        for tenant in sorted(first):
            self._recount(tenant, first[tenant])

    def _recount(self, tenant: str, first: int) -> None:
        """Count a tenant's figures from what is stored by minute, so any repetition is harmless.

        Every batch does this after its own writes, from the minute `first` on, so the last one to
        store has seen all of them. Whether the settled minutes are among those to read is decided
        by the accounts that will be replaced:

            projector A                  counters                   projector B
                                                           <------  reads all minutes
            put 12:01, late  ------->
                                         settled: 12:07    <------  store over 3
            reads accounts 4
            reads all minutes: 12:01 is settled
        """

        def once() -> None:
            stored, version = self.usage.accounts(tenant)
            now_ms = int(self.clock() * 1000)
            now = now_ms // 60_000
            accounts = (stored or Accounts.new(now)).at(now)
            since = accounts.since(first, now)
            minutes = self.usage.minutes(tenant, since)
            self.usage.store(tenant, accounts.count(minutes, since, now_ms), version)

        decide_again(once)
