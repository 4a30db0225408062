"""The kick: the function scaler is called when new jobs wait, not only every minute.

    submission     table          projector            scaler
    put  ------->  pending  --->  a batch in which
                                  more jobs came than
                                  were taken
                                  asks for a call -->  reads lanes and agents, decides

A kick decides nothing: the scaler counts what waits. So one too many costs a call, and one too few
a wait until the minute's call.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from joblane.job.lifecycle import State
from joblane.queue.activity import Change
from joblane.service.log import Log

EVERY_S = 5.0
"""A process kicks at most this often: a deployment under load has batches all the time."""


def more_wait(changes: Iterable[Change]) -> bool:
    """Whether in some queue more jobs began to wait for an agent than were taken."""
    pending: Counter[str] = Counter()
    for change in changes:
        pending[change.queue] += (change.after is State.PENDING) - (change.before is State.PENDING)
    return any(count > 0 for count in pending.values())


@dataclass
class Kick:
    """Kicks the scaler for batches of changes."""

    start: Callable[[], None]
    """Asks for a call of the scaler, and does not wait for it."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    log: Log
    last_s: float = 0.0
    """When the scaler was last kicked."""

    def after(self, changes: Iterable[Change]) -> None:
        """Kick if more jobs wait after these changes.

        A failure is logged only: the scaler is called every minute as well.
        """
        now = self.clock()
        if now - self.last_s < EVERY_S or not more_wait(changes):
            return
        self.last_s = now
        try:
            self.start()
        except (BotoCoreError, ClientError):
            self.log.exception("the scaler could not be called; it is called every minute anyway")
