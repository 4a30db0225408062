"""Adapter for the `settings` table: how far the jobs of each retired queue have moved."""

from collections.abc import Iterable
from dataclasses import asdict, replace

from joblane.aws.table import ConditionFailed, Row, Store
from joblane.deployment.names import QUEUE_MOVE
from joblane.errors import Changed
from joblane.queue.moves import QueueMove


class QueueMoveStore(Store):
    """Reads and writes the passes that move jobs."""

    def read(self, queues: Iterable[str]) -> dict[str, QueueMove]:
        """Read the passes of queues, strongly; those that have none are left out."""
        keys = [{"queue": f"{QUEUE_MOVE}{queue}"} for queue in queues]
        rows = self._table.get_many(keys, consistent=True)
        return {row["queue"].removeprefix(QUEUE_MOVE): _move(row) for row in rows}

    def write(self, queue: str, move: QueueMove) -> QueueMove:
        """Store a pass over the version that it was made from. Returns it as stored.

            requeue                      table                      requeue, a minute later
            reads version 3
            moves a page                                            reads version 3
                                                                    moves the same page
                                         version 4         <------  write over 3
            write over 3  ---------->    refused

        A page that is walked twice moves no job twice: those that have moved are not in the queue
        any more. Raises Changed.
        """
        new = replace(move, version=move.version + 1)
        row = {"queue": f"{QUEUE_MOVE}{queue}", **asdict(new)}
        try:
            if move.version:
                self._table.put(row, "#version = :over", over=move.version)
            else:
                self._table.put(row, "attribute_not_exists(#version)")
        except ConditionFailed as failure:
            if not failure.row or _move(failure.row) != new:
                raise Changed("another function has moved these jobs on") from failure
            # The SDK repeated the call after a lost answer.
        return new


def _move(row: Row) -> QueueMove:
    return QueueMove(
        to=row["to"],
        tenant=row.get("tenant"),
        before=row.get("before"),
        passes=row["passes"],
        moved=row["moved"],
        kept=row["kept"],
        failed=row["failed"],
        ended_ms=row.get("ended_ms"),
        version=row["version"],
    )
