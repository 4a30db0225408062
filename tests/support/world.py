"""A small world: the real functions and agents over an AWS that misbehaves, on one clock.

The tables are moto's, what reads and writes them is the product's; only time, SQS, the pace of
Step Functions and EventBridge, and the jobs' processes are simulated.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, cast

from botocore.exceptions import ClientError, ReadTimeoutError

from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.instance_end.handler import InstanceEnd
from functions.instance_end.handler import Settings as InstanceEndSettings
from functions.recovery.handler import Recovery, answer, make_testers
from functions.recovery.handler import Settings as RecoverySettings
from functions.requeue import handler as requeue
from functions.submission import handler as submission
from infra.recovery_machine import definition
from joblane.aws.agents import HEARTBEAT_S, LEASE_S
from joblane.aws.clients import QUICK
from joblane.config import alternate_name
from joblane.names import LANES
from tests.support import recovery
from tests.support.aws import (
    DESCRIPTOR,
    FUNCTION_ENVIRONMENT,
    NAME,
    PREFIX,
    QUEUES,
    Cloud,
    new_session,
)
from tests.support.machine import Clock, Execution, Machine
from tests.support.recovery import MACHINE_ARN, QUIET, OneEach, Switch
from tests.support.requests import Api
from tests.support.simulated_agent import TROUBLE, SimAgent
from tests.support.sqs import Faults, Queues, Sqs

SKEW_S = 5.0
"""Clocks of two hosts differ by this much at most."""

TICK_S = HEARTBEAT_S
MINUTE_TICKS = 6

MOST_RECEIVES = 40
"""After which SQS moves a message to its lane's dead-letter queue: far fewer than deployed, so
that it happens."""

INTERRUPTED = 0.03
"""How often others come in between before a call."""

MOST_AT_ONCE = 3
"""Agents that are in the middle of something."""

POLICIES = {
    "app": {"policy": "exponential", "first_s": 10, "longest_s": 120, "most_s": 1800},
    "http": {"policy": "constant", "every_s": 20, "most_s": 900},
}

CONDITIONS = ("http:https://api.example.com/health", "tcp:db.example.com:5432", "app:ledger")


class Inline:
    """An executor that works at once: threads would make a seed mean nothing."""

    def __init__(self, _workers: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], entries: Iterable[Any]) -> Iterator[Any]:
        """Do one after the other."""
        return map(work, list(entries))


class Pace(Machine):
    """Executions, advanced by the world's ticks; what fails is told as EventBridge does."""

    def __init__(self, world: "World") -> None:
        function = definition("function")
        super().__init__(None, MACHINE_ARN, function, world.recovery, world.clock)
        self.events: list[dict[str, Any]] = []

    def start(self, name: str, text: str) -> None:
        """Begin an execution. Raises what Step Functions says of a name that is taken."""
        if name in self.executions:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        data = json.loads(text)
        self.executions[name] = Execution(name, data, "Begin", data, self._clock.now)

    def tick(self) -> None:
        """Do what is due, and hand on what failed until it is taken."""
        for execution in self.running():
            for _ in range(20):
                if execution.status != "RUNNING" or execution.due > self._clock.now:
                    break
                self.step(execution)
        for event in list(self.events):
            try:
                self._function(event)
            except TROUBLE:
                continue
            self.events.remove(event)

    def alive(self) -> set[str]:
        """Conditions that somebody takes care of, or is about to be told of."""
        inputs = [e.input for e in self.running()]
        inputs += [json.loads(event["detail"]["input"]) for event in self.events]
        return {str(data["condition"]) for data in inputs}

    def _find_new(self) -> None:
        pass

    def _failed(self, execution: Execution) -> None:
        execution.status = "FAILED"
        detail = {"status": "FAILED", "input": json.dumps(execution.input)}
        self.events.append({"detail": detail})


class _StepFunctions:
    """A client of Step Functions, as far as the product uses it."""

    def __init__(self, pace: Pace, faults: Faults) -> None:
        self._pace = pace
        self._faults = faults

    def start_execution(self, *, name: str, input: str, **_: Any) -> None:  # noqa: A002 - theirs
        """Start an execution."""
        with self._faults.call():
            self._pace.start(name, input)


class _Sns:
    """A client of SNS that nobody listens to."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def publish(self, **_: Any) -> None:
        """Tell nobody."""
        with self._faults.call():
            pass


class _CutOff(Faults):
    """The world's faults, and those of a host that cannot reach AWS at all.

    Before a call others may do theirs: what its caller read may be old by the time it writes.
    """

    def __init__(self, world: "World", cut_off: Callable[[], bool]) -> None:
        super().__init__(world.dice, 0)
        self._world = world
        self._faults = world.faults
        self._cut_off = cut_off

    def refuse(self, **_: Any) -> None:
        """Fail before the call is made."""
        if self._cut_off():
            raise ReadTimeoutError(endpoint_url="https://aws.test")
        self._world.interrupt()
        self._faults.refuse()

    def lose_answer(self, **_: Any) -> None:
        """Fail after the call was made."""
        self._faults.lose_answer()

    @property
    def share(self) -> float:
        """How often a call fails."""
        return self._faults.share

    @share.setter
    def share(self, value: float) -> None:
        pass


class FaultyClients(OneEach):
    """Makes clients whose calls fail now and then."""

    def __init__(self, world: "World", faults: Faults) -> None:
        session = new_session()
        events = session.get_component("event_emitter")
        events.register("before-call", faults.refuse)
        events.register("after-call", faults.lose_answer)
        super().__init__(session)
        self._made["sqs"] = Sqs(world.queues, faults)
        self._made["stepfunctions"] = _StepFunctions(world.pace, faults)
        self._made["sns"] = _Sns(faults)

    def make(self, service: str, config: Any = QUICK) -> Any:
        """Make a client, or hand out the one that was made."""
        return super().make(service, config)


class World:
    """Everything, and the check that no job runs twice at once."""

    def __init__(self, aws: Cloud, seed: int, share: float) -> None:
        recovery.make(aws)
        self.aws = aws
        self.dice = random.Random(seed)
        self.clock = Clock(1_800_000_000.0)
        self.faults = Faults(self.dice, share)
        self.queues = Queues(self.dice, self.clock)
        self.troubled = True
        self.wells = {"http": Switch(), "tcp": Switch()}
        self.agents: list[SimAgent] = []
        self.starts: dict[str, int] = {}
        self.ended_instances: list[str] = []
        self.ticks = 0
        self._busy: list[SimAgent] = []
        for queue in QUEUES:
            for lane in LANES:
                self.queues.make(DESCRIPTOR.lane_url(queue, lane))
                self.queues.make(DESCRIPTOR.dead_letter_url(queue, lane))
        self.queues.make(PREFIX + alternate_name(NAME))
        self.pace = Pace(self)
        self._functions()

    def _functions(self) -> None:
        """Compose each function as its `main` does, with its own faulty clients."""
        make, late = self.clients, self._skewed
        environment = FUNCTION_ENVIRONMENT
        self.api = Api(
            submission.build(submission.Settings.model_validate(environment), make(), late())
        )
        self.operator = Api(admin.build(admin.Settings.model_validate(environment), make(), late()))
        self._requeue = requeue.build(requeue.Settings.model_validate(environment), make(), late())
        self._dead_letters = dead_letter.build(
            dead_letter.Settings.model_validate(environment), make(), late()
        )
        instance_end = InstanceEndSettings.model_validate(
            {**environment, "JOBLANE_QUEUES": json.dumps(QUEUES)}
        )
        self._instance_end = InstanceEnd(instance_end, make(), QUIET)
        settings = RecoverySettings.model_validate(
            {**recovery.ENVIRONMENT, "JOBLANE_POLICIES": json.dumps(POLICIES)}
        )
        clients, clock = make(), late()
        testers = make_testers(settings, clients, clock) | self.wells
        self._recovery = Recovery(settings, clients, testers, clock, QUIET)

    def clients(self, cut_off: Callable[[], bool] = lambda: False) -> FaultyClients:
        """Make clients of one host or function."""
        return FaultyClients(self, _CutOff(self, cut_off))

    def _skewed(self) -> Callable[[], float]:
        skew_s = self.dice.uniform(-SKEW_S / 2, SKEW_S / 2)
        return lambda: self.clock.now + skew_s

    def recovery(self, event: dict[str, Any]) -> dict[str, Any]:
        """Call the recovery function."""
        return answer(self._recovery, event)

    def started(self, job_id: str, by: SimAgent) -> None:
        """Note a start; nobody else may be running the job."""
        self.starts[job_id] = self.starts.get(job_id, 0) + 1
        for agent in self.agents:
            others = [job for job in agent.running if job.attempt.head.job_id == job_id]
            assert not others or (agent is by and len(others) == 1), f"{job_id} runs twice"

    def join(self, name: str) -> None:
        """Let an agent start; it beats before it takes anything."""
        agent = SimAgent(self, name, self.dice.uniform(-SKEW_S / 2, SKEW_S / 2))
        agent.renewed = self.clock.now - LEASE_S
        self.agents.append(agent)
        agent.beat()

    def tick(self, seconds: float = TICK_S) -> None:
        """Let time pass; everybody does what is due."""
        self.ticks += 1
        self.clock.now += seconds
        for agent in [a for a in self.agents if a.alive]:
            with self._busy_with(agent):
                agent.beat()
                agent.extend()
                agent.work()
        self.agents = [a for a in self.agents if a.alive]
        self.pace.tick()
        if self.ticks % MINUTE_TICKS == 0:
            self._every_minute()
        self._instances()
        self._redrive()

    def interrupt(self) -> None:
        """Now and then, let another agent work in the middle of what somebody does."""
        others = [a for a in self.agents if a.alive and a not in self._busy]
        if others and len(self._busy) < MOST_AT_ONCE and self.dice.random() < INTERRUPTED:
            agent = self.dice.choice(others)
            with self._busy_with(agent):
                agent.work()

    @contextmanager
    def _busy_with(self, agent: SimAgent) -> Iterator[None]:
        self._busy.append(agent)
        yield
        self._busy.remove(agent)

    def _every_minute(self) -> None:
        """EventBridge's call; now and then there is no time for all."""
        left = iter(self.dice.choices([100.0, 1.0], [9, 1], k=100))
        with quietly():
            self._requeue.run(lambda: next(left))

    def _instances(self) -> None:
        """EC2's notices of instances that ended, until they are taken."""
        for name in list(self.ended_instances):
            with quietly():
                self._instance_end({"detail": {"instance-id": name, "state": "terminated"}})
                self.ended_instances.remove(name)

    def _redrive(self) -> None:
        """What SQS handed out too often goes to the lane's dead-letter queue, and is read there."""
        for lane in LANES:
            source = self.queues.entries[DESCRIPTOR.lane_url("default", lane)]
            dead = self.queues.entries[DESCRIPTOR.dead_letter_url("default", lane)]
            for key in [k for k, e in source.items() if e.receives > MOST_RECEIVES]:
                dead[key] = source.pop(key)
            records = [_record(key, entry, lane) for key, entry in dead.items()]
            failed = self._dead_letters.handle(records) if records else []
            for record in records:
                if record["messageId"] not in failed:
                    del dead[int(cast("str", record["messageId"]))]


def _record(key: int, entry: Any, lane: str) -> dict[str, Any]:
    return {
        "messageId": str(key),
        "body": entry.body,
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{NAME}-default-{lane}-dlq",
        "attributes": {"ApproximateReceiveCount": str(entry.receives)},
        "messageAttributes": {
            name: {"stringValue": value["StringValue"]} for name, value in entry.attributes.items()
        },
    }


@contextmanager
def quietly() -> Iterator[None]:
    """A function that failed is called again later."""
    try:
        yield
    except TROUBLE:
        return
