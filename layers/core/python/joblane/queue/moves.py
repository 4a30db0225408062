"""How far the waiting jobs of a retired queue have moved to another one.

A pass walks all jobs of the queue's tenants, newest first, a page at a time, and moves those that
wait in the queue. One is not the last: a function that had read the joblane.toml before may have
accepted a job meanwhile, and a job that ran may wait again. So passes repeat, at twice the distance
each time, for as long as joblane.toml says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from joblane.job.edit import EDITABLE
from joblane.job.head import Head

FIRST_AGAIN_MS: Final = 15 * 60_000
"""From the end of the first pass to the second one: by then no function has the earlier
joblane.toml any more, as Lambda ends what a deployment replaces within minutes."""

MOST_AGAIN_MS: Final = 24 * 3_600_000
"""The most between two passes."""


@dataclass(frozen=True, slots=True)
class QueueMove:
    """The passes of one retired queue."""

    to: str
    """The queue that its jobs move to."""
    tenant: str | None = None
    """Whose jobs are looked at next; None: no pass goes on."""
    before: str | None = None
    """The jobs of the tenant below this id are left; None: all."""
    passes: int = 0
    """Passes that have ended since one in which a move failed."""
    moved: int = 0
    """Jobs that have moved, in all passes, without those of a page that a crash interrupted."""
    kept: int = 0
    """Jobs that the other queue does not take, in this or the last pass."""
    failed: int = 0
    """Jobs of this pass that AWS did not let move: the next pass follows soon."""
    ended_ms: int | None = None
    """When the last pass ended, in Unix milliseconds."""
    version: int = 0
    """Number of writes; 0: it is not stored."""

    @property
    def due_ms(self) -> int | None:
        """When the next pass begins, in Unix milliseconds; None while one goes on."""
        if self.tenant is not None or self.ended_ms is None:
            return None
        wait_ms = FIRST_AGAIN_MS
        for _ in range(1, self.passes):
            wait_ms = min(2 * wait_ms, MOST_AGAIN_MS)
        return self.ended_ms + wait_ms


def may_move(head: Head) -> bool:
    """Whether a job moves with its queue: it waits there, for a lane, and not with a group.

    One that only one agent may run is in that agent's inbox, which serves the queue until the agent
    is told otherwise.
    """
    return head.state in EDITABLE and head.assigned is None and head.member_of is None


def forget(move: QueueMove) -> QueueMove:
    """Return a queue's passes as if there had been none: its jobs do not move any more."""
    return QueueMove(move.to, version=move.version)


def begin(move: QueueMove | None, to: str, tenants: Sequence[str], now_ms: int) -> QueueMove | None:
    """Return the pass that goes on now; None until the next one is due.

    `tenants` are those of the queue, sorted. It begins anew for a queue that moves to another one
    than before, and if joblane.toml has lost the tenant whose jobs were looked at.
    """
    if move is None or move.to != to:
        version = 0 if move is None else move.version
        return QueueMove(to, tenants[0], version=version)
    if move.tenant in tenants:
        return move
    due_ms = move.due_ms
    if due_ms is not None and now_ms < due_ms:
        return None
    return replace(move, tenant=tenants[0], before=None, kept=0, failed=0)


def after_page(
    move: QueueMove,
    tenants: Sequence[str],
    following: str | None,
    now_ms: int,
    *,
    moved: int,
    kept: int,
    failed: int,
) -> QueueMove:
    """Return the pass after a page of the tenant's jobs; `following` is the id to continue from."""
    later = [tenant for tenant in tenants if tenant > (move.tenant or "")]
    move = replace(
        move,
        before=following,
        moved=move.moved + moved,
        kept=move.kept + kept,
        failed=move.failed + failed,
    )
    if following is not None:
        return move
    if later:
        return replace(move, tenant=later[0])
    passes = 1 if move.failed else move.passes + 1
    return replace(move, tenant=None, passes=passes, ended_ms=now_ms)
