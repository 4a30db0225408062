"""Start an execution for each condition that jobs wait for, and stop it when none waits.

A condition's phase and generation (`joblane.condition.state`) say which execution tests it.
Every caller that finds a condition in `opening` starts its execution: the execution's name makes
sure that it is started once, and the next caller repairs a crash between the write and the start.

A tenant's conditions are tested up to its limit; each further one is started when another one of
the tenant ends.
"""

from dataclasses import dataclass

from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.executions import Executions
from joblane.aws.condition.places import ConditionPlaces
from joblane.condition.state import ConditionState, Phase, open_condition
from joblane.deployment.limits import Limits
from joblane.job.blocked import waiting_job
from joblane.job.head import Head


@dataclass(frozen=True)
class ConditionSupervisor:
    """Opens, renews and closes conditions."""

    conditions: ConditionStore
    executions: Executions
    places: ConditionPlaces
    limits: Limits

    def join(self, condition: str, head: Head, now_ms: int) -> str | None:
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
        Raises Unavailable.

        Returns why the condition is not tested yet, if the tenant has reached its limit.
        """
        self.conditions.put(condition, waiting_job(head))
        if self._enter(head.tenant, condition, now_ms):
            return None
        limit = self._limit(head.tenant)
        return (
            f"{limit} conditions of {head.tenant} were tested when it blocked, the limit "
            "recovery_executions: its own is tested after another one ends"
        )

    def _enter(self, tenant: str, condition: str, now_ms: int) -> bool:
        """Have a condition tested for a tenant; False if it waits for a place.

        A tenant's directory row is put before the condition's row says that it is there: after
        a crash in between, an agent that gets the same message does both again.
        """
        while True:  # repeats only if another writer has changed the condition
            state = self.conditions.get(condition)
            if state is None or state.needs_opening(now_ms):
                if not self._take_place(tenant, condition, now_ms):
                    return False
                new = open_condition(condition, state, now_ms)
                self.conditions.enter_directory(tenant, new, now_ms)
                if self.conditions.write(state, new, tenant) is None:
                    continue
                state = new
            elif tenant not in state.tenants:
                self.conditions.enter_directory(tenant, state, now_ms)
                if not self.conditions.add_tenant(state, tenant):
                    continue
            if state.phase is Phase.OPENING:
                self.start(state)
            return True

    def _take_place(self, tenant: str, condition: str, now_ms: int) -> bool:
        """Take a place of the tenant's limit; False if the condition waits for one.

            agent                        places, untested     execution of another condition
            take: all are taken
                                         one is free  <-----  give back
            put untested  ----------->                        reads: none is untested
            take: taken

        The row is put before the second attempt, and a place is given back before rows are read:
        at least one of the two sees the other.
        """
        limit = self._limit(tenant)
        if self.places.take(tenant, condition, limit, now_ms):
            return True
        self.places.enqueue(tenant, condition, now_ms)
        return self.places.take(tenant, condition, limit, now_ms)

    def _pass_on(self, tenant: str, condition: str, now_ms: int) -> None:
        """Give back the place of a condition, and start those that wait for one."""
        self.places.give_back(tenant, condition)
        while (untested := self.places.next_untested(tenant, condition)) is not None:
            wanted = self.conditions.waiting(untested.condition, 1)
            if wanted and not self._enter(tenant, untested.condition, now_ms):
                return
            self.places.dequeue(tenant, untested)

    def _limit(self, tenant: str) -> int:
        return self.limits.of(tenant).recovery_executions

    def close(self, state: ConditionState, now_ms: int) -> ConditionState | None:
        """Stop testing a condition whose list is empty (the race: see `join`).

        Returns the state to continue with when a job joined meanwhile, None when nothing is left
        to do here: the list is empty, or another execution took over. Safe to repeat after a
        crash, with the state as it then is.

        Its places are given back before it is closed: once it is, somebody else may open it, and
        then nobody would know after a crash that they were not.
        """
        closed: ConditionState | None = state
        if state.phase is not Phase.CLOSED:
            for tenant in sorted(state.tenants):
                self._pass_on(tenant, state.condition, now_ms)
            if self.conditions.waiting(state.condition, 1):
                return self._go_on(state)  # a job joined while places were passed on
            closed = self.conditions.write(state, state.close(now_ms))
        if closed is None:
            return None
        if not self.conditions.waiting(state.condition, 1):
            self.conditions.leave_directory(closed)
            return None
        return self._go_on(closed)

    def _go_on(self, state: ConditionState) -> ConditionState | None:
        """Let the execution that was closing a condition continue; None if another took over.

        Its tenants take their places again, over the limit if others have them now.
        """
        reopened = self.conditions.write(state, state.reopen())
        if reopened is not None:
            for tenant in sorted(state.tenants):
                self.places.take(tenant, state.condition, None, state.since_ms)
        return reopened

    def renew(self, state: ConditionState, now_ms: int) -> None:
        """Let a new execution take over, if `state` is still current."""
        successor = state.renew(now_ms)
        if self.conditions.write(state, successor) is not None:
            self.start(successor)

    def start(self, state: ConditionState) -> None:
        """Start the execution of a generation. Safe to repeat."""
        self.executions.start(state)
