"""Start an execution for each condition that jobs wait for, and stop it when none waits.

A condition's phase and generation (`joblane.condition.state`) say which execution tests it.
Every caller that finds a condition in `opening` starts its execution: the execution's name makes
sure that it is started once, and the next caller repairs a crash between the write and the start.
"""

from dataclasses import dataclass

from joblane.aws.conditions import ConditionStore
from joblane.aws.executions import Executions
from joblane.condition.state import ConditionState, Phase, opened
from joblane.condition.waiting import waiting_job
from joblane.job.head import Head


@dataclass(frozen=True)
class ConditionSupervisor:
    """Opens, renews and closes conditions."""

    conditions: ConditionStore
    executions: Executions

    def join(self, condition: str, head: Head, now_ms: int) -> None:
        """Put a blocked job into its condition's list, and start its execution if there is none.

        Safe to repeat, also by another agent after a crash: it is the second step of handing a
        job over (block, join, delete the message). The race with an execution that finds the
        list empty is settled by the order of the steps on both sides:

            agent                        condition            execution
            put row  -------------->     running              reads: list empty
                                         closed     <-------  close, if still my generation
            read: closed                            <-------  read again: a row -> reopen
            open, if still closed --->   opening, new generation

        The row is put before the phase is read, and the phase is closed before the list is read
        again, all strongly consistent: at least one of the two sees the other. If both do, both
        writes require that it is still closed in that generation, and the second is refused.
        Raises ClientError.

        A tenant's directory row is put before the condition's row says that it is there: after
        a crash in between, an agent that gets the same message does both again.
        """
        self.conditions.put(condition, waiting_job(head))
        while True:  # repeats only if another writer has changed the condition
            state = self.conditions.get(condition)
            if state is None or state.needs_opening(now_ms):
                new = opened(condition, state, now_ms)
                self.conditions.enter_directory(head.tenant, new, now_ms)
                if self.conditions.write(state, new, head.tenant) is None:
                    continue
                state = new
            elif head.tenant not in state.tenants:
                self.conditions.enter_directory(head.tenant, state, now_ms)
                if not self.conditions.add_tenant(state, head.tenant):
                    continue
            if state.phase is Phase.OPENING:
                self.start(state)
            return

    def close(self, state: ConditionState, now_ms: int) -> ConditionState | None:
        """Stop testing a condition whose list is empty (the race: see `join`).

        Returns the state to continue with when a job joined meanwhile, None when nothing is left
        to do here: the list is empty, or another execution took over. Safe to repeat after a
        crash, with the state as it then is.
        """
        closed: ConditionState | None = state
        if state.phase is not Phase.CLOSED:
            closed = self.conditions.write(state, state.closed(now_ms))
        if closed is None:
            return None
        if not self.conditions.waiting(state.condition, 1):
            self.conditions.leave_directory(closed)
            return None
        return self.conditions.write(closed, closed.reopened())

    def renew(self, state: ConditionState, now_ms: int) -> None:
        """Let a new execution take over, if `state` is still current."""
        successor = state.renewed(now_ms)
        if self.conditions.write(state, successor) is not None:
            self.start(successor)

    def start(self, state: ConditionState) -> None:
        """Start the execution of a generation. Safe to repeat."""
        self.executions.start(state)
