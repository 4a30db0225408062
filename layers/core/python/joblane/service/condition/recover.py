"""Recovery: the steps of the state machine that tests one condition until no job waits for it.

Each step reads the current state, acts, and returns the next step; it can be run again after a
crash at any point. A step of an execution that was superseded does nothing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import Lanes
from joblane.condition.blocking import encode
from joblane.condition.names import unscope_name
from joblane.condition.policies import DEFAULT_POLICY, AnyPolicy
from joblane.condition.state import ConditionState, Phase
from joblane.job.blocked import WaitingJob
from joblane.job.head import Head
from joblane.job.moves import plan
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.service.condition.testers import BadParameters
from joblane.service.condition.tests import ConditionTests
from joblane.service.decide_again import decide_again
from joblane.service.job.wake_up import send_wake_up
from joblane.service.log import Log
from joblane.state.lifecycle import Event, State
from joblane.state.retention import Retention
from joblane.state.timeline import Step

PAGE = 25
"""Jobs that one step moves: three short calls each, one or two of the function's 29 seconds."""

MAX_STEPS = 700
"""Steps after which an execution hands over to a new one.

Step Functions ends an execution at 25,000 events. A step with all its retries makes at most 33
(tests/unit/condition/test_recovery_machine.py counts them); the default policy makes 656 tests in
48 h.
"""


class ExecutionState(BaseModel):
    """The state of an execution of the state machine."""

    condition: str
    generation: int
    next: Literal["wait", "resubmit", "give_up", "done"] = "wait"
    steps: int = 0
    delay_s: int = 0
    allow: int = 0
    """How many jobs may still be resubmitted in this round."""
    turn: str = ""
    """The tenant of the job that was resubmitted last: the next one's turn follows."""
    fresh: bool = False
    """Whether any of the resubmitted jobs was blocked for the first time."""
    untestable: str | None = None
    """Why the condition can never be tested, so that all its jobs fail."""


@dataclass(frozen=True)
class Recovery:
    """Runs the steps of executions."""

    jobs: JobStore
    conditions: ConditionStore
    supervisor: ConditionSupervisor
    lanes: Lanes
    tests: ConditionTests
    _: KW_ONLY
    policies: Mapping[str, AnyPolicy]
    """Those of kinds without the default policy."""
    retention: Retention
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    log: Log
    max_steps: int = MAX_STEPS

    def answer(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the state machine, an agent, or EventBridge about an execution that failed."""
        if "detail" in event:
            failed = json.loads(event["detail"]["input"])
            self._replace_execution(failed["condition"], failed["generation"])
            return {}
        if event["do"] == "check":
            return encode(self.tests.find_blocking(event["conditions"]))
        return self._step(
            event["do"], ExecutionState.model_validate(event["progress"])
        ).model_dump()

    def _step(self, name: str, progress: ExecutionState) -> ExecutionState:
        """Run one step of an execution, unless another generation has taken over."""
        steps = {
            "begin": self._begin,
            "test": self._test,
            "resubmit": self._resubmit,
            "give_up": self._give_up,
        }
        row = self.conditions.get(progress.condition)
        progress = progress.model_copy(update={"steps": progress.steps + 1})
        if row is None or row.generation != progress.generation:
            if row is not None and row.phase is Phase.OPENING:
                # The write of the successor and its start are two calls; repeat the second.
                self.supervisor.start(row)
            return _finish(progress)
        if row.phase is Phase.CLOSED:  # killed while closing
            return self._close(progress, row)
        after = steps[name](progress, row)
        if after.next != "done" and after.steps >= self.max_steps:
            current = self.conditions.get(progress.condition)
            if current is not None and current.generation == progress.generation:
                self.supervisor.renew(current, self.now_ms())
            return _finish(after)
        return after

    def _replace_execution(self, condition: str, generation: int) -> None:
        """React to a failed execution: start another one if jobs may wait."""
        row = self.conditions.get(condition)
        if row is None:
            return
        if row.generation != generation:  # a successor was written; start it
            if row.phase is Phase.OPENING:
                self.supervisor.start(row)
            return
        if row.phase is not Phase.CLOSED or self.conditions.waiting(condition, 1):
            self.supervisor.renew(row, self.now_ms())

    def _begin(self, progress: ExecutionState, row: ConditionState) -> ExecutionState:
        return self._wait(progress, row, row, self._delay_s(row))

    def _test(self, progress: ExecutionState, row: ConditionState) -> ExecutionState:
        if not self._any_waits(row):
            return self._close(progress, row)
        try:
            finding = self.tests.test(row.condition)
        except BadParameters as error:
            # Not its name: an address can contain what only its tenant may read.
            self.log.warning("untestable", execution=row.execution_name, why=str(error))
            return progress.model_copy(update={"next": "give_up", "untestable": str(error)})
        self.log.info(
            "tested",
            execution=row.execution_name,
            allow=finding.allow,
            why=finding.why,
            tests=row.tests,
        )
        found = replace(row, allow=finding.allow, why=finding.why)
        if finding.allow > 0:
            if self.conditions.write(row, found) is None:
                return _finish(progress)
            return progress.model_copy(
                update={"next": "resubmit", "allow": finding.allow, "fresh": False}
            )
        found = replace(found, tests=row.tests + 1)
        after = self._wait(progress, row, found, self._delay_s(found))
        if after.next == "wait" and self._overdue(row, 1):
            return after.model_copy(update={"next": "give_up"})
        return after

    def _any_waits(self, row: ConditionState) -> bool:
        """Whether a job waits for the condition.

        Entries before it whose jobs do not wait any more (cancelled, expired, deleted) are
        dropped, and nothing is tested for them.
        """
        while page := self.conditions.waiting(row.condition, 1):
            head = self.jobs.get(page[0].job_id)
            if head is not None and head.condition == row.condition:
                return True
            self._drop_outdated(row, page[0], head)
        return False

    def _drop_outdated(self, row: ConditionState, entry: WaitingJob, head: Head | None) -> None:
        """Drop the entry of a job that does not wait for this condition any more."""
        if head is not None and head.state is State.PENDING:
            send_wake_up(self.lanes, head)  # killed after unblocking it
        self.conditions.drop(row.condition, entry)

    def _overdue(self, row: ConditionState, limit: int) -> list[WaitingJob]:
        """Jobs that have waited for as long as the policy lets them."""
        before_ms = self.now_ms() - self._policy(row).most_s * 1000
        return self.conditions.overdue(row.condition, before_ms, limit)

    def _resubmit(self, progress: ExecutionState, row: ConditionState) -> ExecutionState:
        """Resubmit a page of jobs, of each tenant in turn, and of a tenant first come first served.

        The round ends after as many as the test allowed.
        """
        limit = min(PAGE, progress.allow)
        page = self.conditions.in_turn(row.condition, limit, progress.turn)
        left = progress.allow - sum(self._resubmit_one(row, entry) for entry in page)
        fresh = progress.fresh or not all(entry.again for entry in page)
        if page:
            progress = progress.model_copy(update={"turn": page[-1].tenant})
        if page and left > 0:
            return progress.model_copy(update={"next": "resubmit", "allow": left, "fresh": fresh})
        # If every resubmitted job has blocked again right after an earlier release, the test passes
        # but the jobs cannot run. Then the delays grow as if the test had failed.
        after = replace(row, tests=0 if fresh else row.tests + 1)
        return self._leave(progress, row, after)

    def _give_up(self, progress: ExecutionState, row: ConditionState) -> ExecutionState:
        """Fail a page of jobs: those that waited too long, or all if it is untestable."""
        if progress.untestable is None:
            page = self._overdue(row, PAGE)
        else:
            page = self.conditions.waiting(row.condition, PAGE)
        for entry in page:
            self._fail(row, entry, progress.untestable or row.why)
        if len(page) == PAGE:
            return progress.model_copy(update={"next": "give_up"})
        return self._leave(progress, row, row)

    def _leave(
        self, progress: ExecutionState, row: ConditionState, after: ConditionState
    ) -> ExecutionState:
        """End a round: wait for the next one, or close a condition that no job waits for."""
        if self.conditions.waiting(row.condition, 1):
            return self._wait(progress, row, after, self._delay_s(after))
        return self._close(progress, after)

    def _wait(
        self, progress: ExecutionState, old: ConditionState, new: ConditionState, delay_s: int
    ) -> ExecutionState:
        """Store the finding and when the next test is due, and wait for it."""
        new = replace(new, phase=Phase.RUNNING, next_ms=self.now_ms() + delay_s * 1000)
        if self.conditions.write(old, new) is None:
            return _finish(progress)
        return progress.model_copy(update={"next": "wait", "delay_s": delay_s, "untestable": None})

    def _close(self, progress: ExecutionState, row: ConditionState) -> ExecutionState:
        reopened = self.supervisor.close(row, self.now_ms())
        if reopened is None:
            return _finish(progress)
        return self._wait(progress, reopened, reopened, self._delay_s(reopened))

    def _resubmit_one(self, row: ConditionState, entry: WaitingJob) -> bool:
        """Return one job to its lane; False if it no longer waits for this condition.

        The job is unblocked before its message is sent, because an agent deletes the message of
        a blocked job, and its entry is removed last:

            recovery                     jobs                lane            agent
            unblock  --------------->    pending
            (killed here; run again)
            unblock  --------------->    refused: pending
            send  ----------------------------------------> message
            drop the entry                                          <-----  receives, claims

        Until the entry is dropped the job is reachable through it, and a second message of a
        job is harmless: the claim is conditional.
        """
        if self._too_long(row, entry.blocked_ms - entry.first_ms):
            # It was resubmitted before, and kept blocking for as long as a job may wait.
            self._fail(row, entry, "it blocked again after every resubmission")
            return True
        reason = f"released by its condition ({row.why}); waits in its lane for an agent"
        step = Step(State.PENDING, self.now_ms(), 0, reason)
        try:
            head: Head | None = self.jobs.unblock(entry.job_id, row.condition, step)
        except Refused as refusal:
            head = refusal.head
        went = head is not None and head.state is State.PENDING
        if head is not None and went:
            send_wake_up(self.lanes, head)
        self.conditions.drop(row.condition, entry)
        return went

    def _fail(self, row: ConditionState, entry: WaitingJob, why: str) -> None:
        """End one job with the condition as its reason, if it still waits for it.

        A job that was edited meanwhile still waits, so this is decided again:

            recovery                     jobs                API
            reads: blocked, edit 0
                                         blocked, edit 1 <-  edit
            failed if edit 0  -------->  refused
            reads: blocked, edit 1
        """

        def once() -> None:
            now_ms = self.now_ms()
            head = self.jobs.get(entry.job_id)
            if head is None or head.condition != row.condition:
                self._drop_outdated(row, entry, head)
                return
            waited = _span((now_ms - entry.first_ms) // 1000)
            reason = (
                f"gave up after {waited} of waiting: {why}; condition {unscope_name(row.condition)}"
            )
            step = plan(head, Event.GIVE_UP, now_ms, reason)
            expires_at = self.retention.expires_at(
                step.state, now_ms, member=head.member_of is not None
            )
            self.jobs.move(head, Event.GIVE_UP, step, expires_at=expires_at)
            self.conditions.drop(row.condition, entry)

        decide_again(once)

    def _policy(self, row: ConditionState) -> AnyPolicy:
        return self.policies.get(row.condition.partition(":")[0], DEFAULT_POLICY)

    def _delay_s(self, row: ConditionState) -> int:
        return self._policy(row).delay_s(row.tests)

    def _too_long(self, row: ConditionState, waited_ms: int) -> bool:
        return waited_ms >= self._policy(row).most_s * 1000


def _finish(progress: ExecutionState) -> ExecutionState:
    return progress.model_copy(update={"next": "done"})


def _span(seconds: int) -> str:
    """A duration in the largest unit that is precise enough."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
