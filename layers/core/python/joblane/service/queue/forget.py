"""Forget how far the jobs of queues have moved that joblane.toml moves no more.

When they are to move again, all are looked at anew. Once in a process is enough: another
joblane.toml always comes with one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from joblane.aws.queue.moves import QueueMoveStore
from joblane.errors import Changed
from joblane.queue.moves import forget


@dataclass(eq=False)
class MoveForgetter:
    """Forgets passes of queues."""

    moves: QueueMoveStore
    queues: Sequence[str]
    """Those whose jobs do not move."""
    _done: bool = field(default=False, init=False)

    def run(self) -> None:
        """Forget their passes, if this process has not done so. Raises Unavailable."""
        if self._done:
            return
        with suppress(Changed):  # a process of before goes on with one: in a minute, again
            for queue, move in self.moves.read(self.queues).items():
                if (after := forget(move)) != move:
                    self.moves.write(queue, after)
            self._done = True
