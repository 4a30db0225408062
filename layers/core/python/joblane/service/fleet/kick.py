"""The kick: the function scaler is called when new jobs wait, not only every minute.

    submission     table          projector            scaler
    put  ------->  pending  --->  a batch in which
                                  more jobs came than
                                  were taken
                                  asks for a call -->  reads lanes and agents, decides

A kick decides nothing: the scaler counts what waits. So one too many costs a call, and one too few
a wait until the minute's call. One call of the scaler runs at a time, and takes seconds where there
are thousands of agents; Lambda refuses others meanwhile, and gives up those that it has refused for
a minute. So kicks are rare where they would tell nothing new, and one that was given up is nobody's
concern (`is_given_up`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from joblane.errors import Unavailable
from joblane.queue.activity import Change
from joblane.service.log import Log
from joblane.state.lifecycle import State

KICK: Mapping[str, bool] = {"kicked": True}
"""The event of a kick."""

EVERY_S = 5.0
"""A process kicks at most this often: a deployment under load has batches all the time."""

LONGEST_S = 60.0
"""While jobs go on to come faster than they are taken, the pause doubles up to this: the scaler is
called every minute as well."""

UNTAKEN = 0.1
"""The least part of the jobs of a batch that was not taken for which the scaler is kicked. Where
agents have free slots it is what came in the last moment before the batch was closed."""


def more_wait(changes: Iterable[Change]) -> bool:
    """Whether in some queue clearly more jobs began to wait for an agent than were taken."""
    came: Counter[str] = Counter()
    more: Counter[str] = Counter()
    for change in changes:
        begins, ends = change.after is State.PENDING, change.before is State.PENDING
        old = change.moved_from or change.queue
        came[change.queue] += begins and not (ends and old == change.queue)
        more[change.queue] += begins
        more[old] -= ends
    return any(count > 0 and count >= UNTAKEN * came[name] for name, count in more.items())


def is_given_up(record: str) -> bool:
    """Whether this record of Lambda is a kick that was refused for so long that it expired.

    A record of a failed asynchronous call; a call of the scaler that failed is not meant.
    """
    try:
        found = json.loads(record)
        expired = found["requestContext"]["condition"] == "EventAgeExceeded"
        return bool(expired and found["requestPayload"] == KICK)
    except (ValueError, KeyError, TypeError):
        return False


@dataclass
class Kick:
    """Kicks the scaler for batches of changes."""

    start: Callable[[], None]
    """Asks for a call of the scaler, and does not wait for it."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    log: Log
    last_s: float = -LONGEST_S
    """When the scaler was last kicked."""
    pause_s: float = EVERY_S
    """How long it is not kicked from then on."""

    def after(self, changes: Iterable[Change]) -> None:
        """Kick if more jobs wait after these changes.

        A failure is logged only: the scaler is called every minute as well.
        """
        now = self.clock()
        passed_s = now - self.last_s
        if passed_s < self.pause_s or not more_wait(changes):
            return
        calm = passed_s >= 2 * LONGEST_S
        self.pause_s = EVERY_S if calm else min(2 * self.pause_s, LONGEST_S)
        self.last_s = now
        try:
            self.start()
        except Unavailable:
            self.log.exception("the scaler could not be called; it is called every minute anyway")
