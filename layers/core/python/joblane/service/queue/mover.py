"""Move the jobs that wait in retired queues to the queues that joblane.toml names for them.

A run walks on where the last one stopped: the jobs of each tenant of the queue, newest first. Each
job is moved by the write of an edit, and the cursor is written after its page. So a run that is
killed anywhere repeats one page at most, where what has moved is left out:

    requeue                      jobs                       settings
    reads a page                                            old: tenant acme, below 01J..
    edit if as read  ------->    queue new, edit 1, due
    (killed here)
    next minute  <-----------------------------------------   old: tenant acme, below 01J..
    reads the page: it is in queue new

What the other queue does not take stays, and runs where it is. `why` says so of each.

`joblane.service.queue.forget` forgets the passes of a queue whose jobs do not move any more.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.moves import QueueMoveStore
from joblane.contract.problems import Conflict, Invalid, TryAgain
from joblane.errors import Changed, Unavailable
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.queue.moves import QueueMove, after_page, begin, may_move
from joblane.queue.retired import moving_queues
from joblane.service.job.edit import Edits
from joblane.service.job.operations import Gone
from joblane.service.log import Log
from joblane.service.queue.rules import QueueRules

PAGE: Final = 100
"""Jobs per page: the maximum of one BatchGetItem."""

AT_ONCE: Final = 8
"""Threads that move the jobs of a page; each waits for AWS most of the time."""


@dataclass(frozen=True)
class QueueMover:
    """Moves jobs of retired queues. A run may be repeated after a crash at any point."""

    jobs: JobStore
    moves: QueueMoveStore
    edits: Edits
    _: KW_ONLY
    rules: QueueRules
    everyone: Sequence[str]
    """All tenants."""
    log: Log
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def run(self, now_ms: int, left_s: Callable[[], float]) -> Counter[str]:
        """Move jobs while there is time; returns how many have `Moved`, and were `Kept`.

        Raises Unavailable when the cursor or a page cannot be read.
        """
        done: Counter[str] = Counter()
        moving = moving_queues(self.rules.retired)
        known = self.moves.read(moving)
        for queue, to in moving.items():
            tenants = sorted(self.rules.tenants[queue] or self.everyone)
            try:
                move = begin(known.get(queue), to, tenants, now_ms)
                done += self._queue(queue, move, tenants, now_ms, left_s)
            except Changed:  # another run has gone on with it
                continue
        return done

    def _queue(
        self,
        queue: str,
        move: QueueMove | None,
        tenants: Sequence[str],
        now_ms: int,
        left_s: Callable[[], float],
    ) -> Counter[str]:
        done: Counter[str] = Counter()
        while move is not None and move.tenant is not None and left_s() > 0:
            heads, following = self.jobs.page(move.tenant, limit=PAGE, before=move.before)
            chosen = [head for head in heads if head.queue == queue and may_move(head)]
            with self.pool(AT_ONCE) as pool:
                counts = Counter(pool.map(partial(self._one, move.to, now_ms), chosen))
            counts.pop("Changed", None)
            done += counts
            page = {name: counts[name.capitalize()] for name in ("moved", "kept", "failed")}
            move = self.moves.write(queue, after_page(move, tenants, following, now_ms, **page))
            if counts:
                names = {"queue": queue, "moves_to": move.to}
                self.log.info("jobs of a retired queue moved", **names, **page)
        return done

    def _one(self, to: str, now_ms: int, head: Head) -> str:
        """Move one job. Returns the name of its count."""
        if self.rules.why_not(head.tenant, to, head.spec) is not None:
            return "Kept"
        try:
            self.edits.edit(head, {"queue": to}, f"queue {head.queue} is retired", now_ms)
        except Invalid:
            return "Kept"
        except (NotAllowed, Gone, Conflict):
            return "Changed"  # it has started or ended meanwhile; if it waits again: the next pass
        except (Unavailable, TryAgain):
            self.log.exception("a job not moved", job_id=head.job_id, trace_id=head.trace_id)
            return "Failed"
        return "Moved"
