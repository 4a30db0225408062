"""Recovery: the steps of the state machine that tests one condition until nobody waits for it.

Each step reads what the table says now, acts, and answers what comes next; killed anywhere it
can be run again. A step of an execution that was superseded does nothing. The same function
answers agents that ask whether a job may start, and takes notice of executions that failed.
"""

from joblane.startup import once  # first of all: see there

# isort: split
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Literal

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.condition_items import ConditionRow, Phase, Waiting
from joblane.aws.conditions import ConditionStore
from joblane.aws.directory import AppStore
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import LaneQueue
from joblane.conditions import DEFAULT_POLICY, AnyPolicy, parse, unscoped
from joblane.head import Step
from joblane.lifecycle import Event, State
from joblane.message import Message
from joblane.moves import plan
from joblane.names import lane_name
from joblane.retention import Retention
from joblane.testers import BadParameters, Finding, Tester
from joblane.testers.net import Guard, HttpTester, TcpTester
from joblane.testers.tables import AppTester, Slots, SlotsTester

PAGE = 25
"""Jobs that one step moves: three short calls each, a second or two of the function's 29."""

MAX_STEPS = 700
"""Steps after which an execution hands over to a new one.

Step Functions ends an execution at 25,000 events. A step with all its retries makes at most 33
(tests/unit/test_recovery_machine.py counts them); the default policy makes 656 tests in 48 h.
"""


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    conditions_table: Annotated[str, Field(alias="JOBLANE_CONDITIONS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    recovery_arn: Annotated[str, Field(alias="JOBLANE_RECOVERY_ARN")]
    tenants: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_TENANT_QUEUES")]
    """Queues that each tenant may use."""
    fleets: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_FLEET_QUEUES")]
    """Queues that each fleet serves."""
    policies: Annotated[Json[dict[str, AnyPolicy]], Field(alias="JOBLANE_POLICIES")]
    """Policy of each kind that does not have the default one."""
    allow_networks: Annotated[
        Json[tuple[IPv4Network | IPv6Network, ...]], Field(alias="JOBLANE_ALLOW_NETWORKS")
    ]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


class Progress(BaseModel):
    """The state of an execution, as it goes through the machine."""

    condition: str
    generation: int
    next: Literal["wait", "resubmit", "give_up", "done"] = "wait"
    steps: int = 0
    delay_s: int = 0
    allow: int = 0
    """How many jobs may still go in this round."""
    fresh: bool = False
    """Whether one of those that went had not come back before."""
    hopeless: str | None = None
    """Why all its jobs fail, however short they have waited."""


class Recovery:
    """The steps, over the stores they are handed."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        testers: Mapping[str, Tester],
        clock: Callable[[], float],
        logger: Logger,
    ) -> None:
        dynamodb = clients.make("dynamodb")
        self._settings = settings
        self._sqs = clients.make("sqs")
        self._jobs = JobStore(dynamodb, settings.jobs_table)
        self._conditions = ConditionStore(
            dynamodb,
            settings.conditions_table,
            clients.make("stepfunctions"),
            settings.recovery_arn,
        )
        self._testers = testers
        self._clock = clock
        self._logger = logger

    def step(self, name: str, progress: Progress) -> Progress:
        """Run one step of an execution, unless another generation has taken over."""
        steps = {
            "begin": self._begin,
            "test": self._test,
            "resubmit": self._resubmit,
            "give_up": self._give_up,
        }
        row = self._conditions.get(progress.condition)
        progress = progress.model_copy(update={"steps": progress.steps + 1})
        if row is None or row.generation != progress.generation:
            if row is not None and row.phase is Phase.OPENING:
                # We may have died between writing our successor down and starting it.
                self._conditions.start(row)
            return _done(progress)
        if row.phase is Phase.CLOSED:  # we died while closing
            return self._close(progress, row)
        after = steps[name](progress, row)
        if after.next != "done" and after.steps >= MAX_STEPS:
            current = self._conditions.get(progress.condition)
            if current is not None and current.generation == progress.generation:
                self._conditions.renew(current, self._now_ms())
            return _done(after)
        return after

    def check(self, names: Sequence[str]) -> dict[str, Any]:
        """Say which of a job's conditions blocks its start: the first that does.

        A condition that jobs wait for, and that the last test found blocking, is not tested
        again: 25 jobs would cost 25 tests.
        """
        for name in names:
            row = self._conditions.get(name)
            if row is not None and row.blocks:
                return {"blocking": name, "why": row.why, "hopeless": False}
            try:
                finding = self._find(name)
            except BadParameters as error:
                return {"blocking": name, "why": str(error), "hopeless": True}
            if finding.allow == 0:
                return {"blocking": name, "why": finding.why, "hopeless": False}
        return {"blocking": None}

    def succeed(self, condition: str, generation: int) -> None:
        """Take notice that an execution failed: another one goes on if jobs may wait."""
        row = self._conditions.get(condition)
        if row is None:
            return
        if row.generation != generation:  # a successor was written down; see that it runs
            if row.phase is Phase.OPENING:
                self._conditions.start(row)
            return
        if row.phase is not Phase.CLOSED or self._conditions.oldest(condition, 1):
            self._conditions.renew(row, self._now_ms())

    def _begin(self, progress: Progress, row: ConditionRow) -> Progress:
        return self._wait(progress, row, row, self._delay_s(row))

    def _test(self, progress: Progress, row: ConditionRow) -> Progress:
        first = self._first(row)
        if first is None:
            return self._close(progress, row)
        try:
            finding = self._find(row.condition)
        except BadParameters as error:
            self._logger.warning("hopeless", condition=row.condition, why=str(error))
            return progress.model_copy(update={"next": "give_up", "hopeless": str(error)})
        self._logger.info(
            "tested", condition=row.condition, allow=finding.allow, why=finding.why, tests=row.tests
        )
        found = replace(row, allow=finding.allow, why=finding.why)
        if finding.allow > 0:
            if not self._conditions.swap(row, found):
                return _done(progress)
            return progress.model_copy(
                update={"next": "resubmit", "allow": finding.allow, "fresh": False}
            )
        found = replace(found, tests=row.tests + 1)
        after = self._wait(progress, row, found, self._delay_s(found))
        if after.next == "wait" and self._too_long(found, self._now_ms() - first.first_ms):
            return after.model_copy(update={"next": "give_up"})
        return after

    def _first(self, row: ConditionRow) -> Waiting | None:
        """The job that has waited longest.

        Entries before it of jobs that wait no longer (cancelled, expired, deleted) are dropped:
        nobody has to tell us, and nothing is tested for them.
        """
        while page := self._conditions.oldest(row.condition, 1):
            head = self._jobs.get(page[0].job_id)
            if head is not None and head.condition == row.condition:
                return page[0]
            if head is not None and head.state is State.PENDING:
                self._send(page[0])  # somebody died between unblocking it and this
            self._conditions.drop(row.condition, page[0])
        return None

    def _resubmit(self, progress: Progress, row: ConditionRow) -> Progress:
        """Let a page of jobs go; the round goes on until as many went as the test allowed."""
        page = self._conditions.oldest(row.condition, min(PAGE, progress.allow))
        left = progress.allow - sum(self._let_go(row, entry) for entry in page)
        fresh = progress.fresh or not all(entry.again for entry in page)
        if page and left > 0:
            return progress.model_copy(update={"next": "resubmit", "allow": left, "fresh": fresh})
        # Where nobody went but jobs that had come back before, the test says "well" and the
        # jobs say "not": then the delays grow as if it had blocked.
        after = replace(row, tests=0 if fresh else row.tests + 1)
        return self._leave(progress, row, after)

    def _give_up(self, progress: Progress, row: ConditionRow) -> Progress:
        """Fail a page of jobs: those whose time is up, or all if it is hopeless."""
        page = self._conditions.oldest(row.condition, PAGE)
        now_ms = self._now_ms()
        late = [
            entry
            for entry in page
            if progress.hopeless is not None or self._too_long(row, now_ms - entry.first_ms)
        ]
        for entry in late:
            self._fail(row, entry, progress.hopeless or row.why)
        if late and late == page:
            return progress.model_copy(update={"next": "give_up"})
        return self._leave(progress, row, row)

    def _leave(self, progress: Progress, row: ConditionRow, after: ConditionRow) -> Progress:
        """End a round: wait for the next one, or close the condition if nobody waits for it."""
        if self._conditions.oldest(row.condition, 1):
            return self._wait(progress, row, after, self._delay_s(after))
        return self._close(progress, after)

    def _wait(
        self, progress: Progress, old: ConditionRow, new: ConditionRow, delay_s: int
    ) -> Progress:
        """Write down what was found and when the next test is due, and wait for it."""
        new = replace(new, phase=Phase.RUNNING, next_ms=self._now_ms() + delay_s * 1000)
        if not self._conditions.swap(old, new):
            return _done(progress)
        return progress.model_copy(update={"next": "wait", "delay_s": delay_s, "hopeless": None})

    def _close(self, progress: Progress, row: ConditionRow) -> Progress:
        reopened = self._conditions.close(row, self._now_ms())
        if reopened is None:
            return _done(progress)
        return self._wait(progress, reopened, reopened, self._delay_s(reopened))

    def _let_go(self, row: ConditionRow, entry: Waiting) -> bool:
        """Return one job to its lane; False if it did not wait for this any more.

        The job is unblocked before its message is sent, because an agent deletes the message of
        a blocked job, and its entry goes last:

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
            # It was let go before, and has come back for as long as a job may wait.
            self._fail(row, entry, "it blocked again and again")
            return True
        reason = f"let go by its condition ({row.why}); waits in its lane for an agent"
        went = True
        try:
            self._jobs.unblock(
                entry.job_id, row.condition, Step(State.PENDING, self._now_ms(), 0, reason)
            )
        except Refused as refusal:
            went = refusal.head is not None and refusal.head.state is State.PENDING
        if went:
            self._send(entry)
        self._conditions.drop(row.condition, entry)
        return went

    def _fail(self, row: ConditionRow, entry: Waiting, why: str) -> None:
        """End one job with the condition as its reason, if it still waits for it."""
        now_ms = self._now_ms()
        head = self._jobs.get(entry.job_id)
        if head is not None and head.condition == row.condition:
            waited = _span((now_ms - entry.first_ms) // 1000)
            reason = (
                f"gave up after {waited} of waiting: {why}; condition {unscoped(row.condition)}"
            )
            step = plan(head, Event.GIVE_UP, now_ms, reason)
            expires_at = self._settings.retention.expires_at(step.state, now_ms)
            try:
                self._jobs.move(head, Event.GIVE_UP, step, expires_at=expires_at)
            except Refused:  # cancelled or expired meanwhile, or we have done it before
                self._logger.info("not failed", job=entry.job_id)
        self._conditions.drop(row.condition, entry)

    def _find(self, name: str) -> Finding:
        """Test a condition. Raises BadParameters."""
        try:
            condition = parse(name)
        except ValueError as error:  # stored by a version that knew the kind
            raise BadParameters(str(error)) from None
        return self._testers[condition.kind].test(condition.parameter)

    def _policy(self, row: ConditionRow) -> AnyPolicy:
        return self._settings.policies.get(row.condition.partition(":")[0], DEFAULT_POLICY)

    def _delay_s(self, row: ConditionRow) -> int:
        return self._policy(row).delay_s(row.tests)

    def _too_long(self, row: ConditionRow, waited_ms: int) -> bool:
        return waited_ms >= self._policy(row).most_s * 1000

    def _send(self, entry: Waiting) -> None:
        """Send a job's message to its own lane."""
        name = lane_name(self._settings.deployment, entry.queue, entry.lane)
        lane = LaneQueue(self._sqs, self._settings.queue_url_prefix + name)
        lane.send(Message(job_id=entry.job_id, tenant=entry.tenant))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _done(progress: Progress) -> Progress:
    return progress.model_copy(update={"next": "done"})


def _span(seconds: int) -> str:
    """A time in the largest unit that says enough."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def make_testers(
    settings: Settings, clients: Clients, clock: Callable[[], float]
) -> dict[str, Tester]:
    """Make the tester of each kind; a new kind is added here and in `joblane.conditions`."""
    dynamodb = clients.make("dynamodb")
    guard = Guard(settings.allow_networks)
    slots = Slots(AgentStore(dynamodb, settings.agents_table), clock)
    return {
        "http": HttpTester(guard),
        "tcp": TcpTester(guard),
        "quota": SlotsTester(slots, "tenant", settings.tenants),
        "capacity": SlotsTester(slots, "fleet", settings.fleets),
        "app": AppTester(AppStore(dynamodb, settings.conditions_table), clock),
    }


def answer(recovery: Recovery, event: Mapping[str, Any]) -> dict[str, Any]:
    """Answer the state machine, an agent, or EventBridge about an execution that failed."""
    if "detail" in event:
        failed = json.loads(event["detail"]["input"])
        recovery.succeed(failed["condition"], failed["generation"])
        return {}
    if event["do"] == "check":
        return recovery.check(event["conditions"])
    return recovery.step(event["do"], Progress.model_validate(event["progress"])).model_dump()


def build(settings: Settings, clients: Clients) -> Recovery:
    """Make the function over AWS."""
    testers = make_testers(settings, clients, time.time)
    return Recovery(settings, clients, testers, time.time, Logger())


@cache
def _application() -> Recovery:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients()))


def main(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Run one step."""
    return answer(_application(), event)
