"""Choose the agents of scheduled jobs with a target, and begin scheduled arrays, when they are due.

The job's transition is written first, and then its message is sent or its members are placed; a
crash in between leaves a row that is due, as everywhere in `joblane.service.job.requeue`:

    requeue                      table                      inbox
    roster  ---------------->    AGENTS#0000 ...
    move: choose members  -->    processing, page 0 begun, due in 10 s
    (killed here)
    next minute  <------------   processing, due
    put members, send  ------>   100 x pending  --------->  100 messages
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from joblane.job.head import Head, waits
from joblane.service.job.operations import Operations
from joblane.service.target.targets import Targets
from joblane.state.lifecycle import Event
from joblane.target.match import TooManyMembers

_DUE = "its run_at has come; "


@dataclass(frozen=True)
class DueTargets:
    """Moves scheduled jobs with a target."""

    targets: Targets
    operations: Operations

    def wake(self, head: Head, now_ms: int, left_s: Callable[[], float]) -> bool:
        """Let a job go whose `run_at` has come; False if it ended, because no agent may run it.

        Members of a group are placed while time is left. Raises NotAllowed and Refused as moves do,
        and Gone.
        """
        if head.spec.array is not None:
            self._begin(head, self.targets.array(head, now_ms), now_ms, left_s)
            return True
        if head.spec.makes_group:
            return self._broadcast(head, now_ms, left_s)
        name, why = self.targets.refusal(head, now_ms)
        if why is not None:
            self.operations.move(head, Event.SKIP, f"{_DUE}{why}", now_ms)
            return False
        to = replace(head, assigned=name)
        moved = self.operations.move(head, Event.WAKE, f"{_DUE}{waits(to)}", now_ms, to)
        self.operations.send(moved, now_ms)
        return True

    def _broadcast(self, head: Head, now_ms: int, left_s: Callable[[], float]) -> bool:
        try:
            choice = self.targets.choose(head, now_ms)
        except TooManyMembers as problem:
            self.operations.move(head, Event.CHOOSE_NONE, f"{_DUE}its target {problem}", now_ms)
            return False
        if not choice.agents:
            nobody = self.targets.make_empty_group(head, now_ms)
            self.operations.move(head, Event.SKIP, f"{_DUE}{choice.reason}", now_ms, nobody)
            return False
        self._begin(head, self.targets.group(head, choice.agents, now_ms), now_ms, left_s)
        return True

    def _begin(self, head: Head, to: Head, now_ms: int, left_s: Callable[[], float]) -> None:
        """Make a scheduled job the group `to`, and place its members."""
        why = f"{_DUE}{'' if to.group is None else to.group.reason}"
        moved = self.operations.move(head, Event.CHOOSE, why, now_ms, to)
        self.targets.expansion.expand(moved, left_s, fresh=True)
