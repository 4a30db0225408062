"""A small world: the real functions and agents over an AWS that misbehaves, on one clock.

What reads and writes AWS is the product's; the tables and SQS are in memory, and time, the pace
of Step Functions and EventBridge, and the jobs' processes are simulated.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, cast

from botocore.exceptions import ClientError

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
from joblane.aws.jobs import JobStore
from joblane.config import alternate_name
from joblane.head import Head
from joblane.names import LANES
from tests.support import recovery
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME, PREFIX, QUEUES
from tests.support.dynamodb import Dynamo, Tables
from tests.support.machine import Clock, Execution, Machine
from tests.support.network import TROUBLE, Faults, Killed, NetworkClients
from tests.support.recovery import MACHINE_ARN, QUIET, Switch
from tests.support.requests import Api
from tests.support.simulated_agent import SimAgent, Waiting
from tests.support.sqs import Queues

SKEW_S = 5.0
"""Clocks of two hosts differ by this much at most."""

TICK_S = HEARTBEAT_S
MINUTE_TICKS = 6

MOST_RECEIVES = 40
"""After which SQS moves a message to its lane's dead-letter queue: far fewer than deployed, so
that it happens."""

INTERRUPTIONS = 0.1
"""How often others come in between before and after a write."""

KILLS = 0.004
"""How often a function or host dies right after a write."""

HEALS = 0.04
"""How often an agent that is cut off finds its way back, each `TICK_S` that it waits."""

MOST_AT_ONCE = 3
"""Agents and functions that are in the middle of something."""

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
        self._stepping: set[str] = set()

    def start(self, name: str, text: str) -> None:
        """Begin an execution. Raises what Step Functions says of a name that is taken."""
        if name in self.executions:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        data = json.loads(text)
        self.executions[name] = Execution(name, data, "Begin", data, self._clock.now)

    def tick(self) -> None:
        """Do what is due, and hand on what failed until it is taken."""
        for execution in self.running():
            if execution.name not in self._stepping:
                self._stepping.add(execution.name)
                self._go_on(execution)
                self._stepping.remove(execution.name)
        for event in list(self.events):
            with quietly():
                self._function(event)
                if event in self.events:
                    self.events.remove(event)

    def _go_on(self, execution: Execution) -> None:
        for _ in range(20):
            if execution.status != "RUNNING" or execution.due > self._clock.now:
                break
            self.step(execution)

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


class Calm(NetworkClients):
    """Clients of who only looks: nothing ever happens to them."""

    def __init__(self, world: "World") -> None:
        super().__init__(world, lambda: False)
        self._made["dynamodb"] = Dynamo(world.tables, lambda _operation, make: make(False))


class World:
    """Everything, and the check that no job runs twice at once."""

    def __init__(self, seed: int, tables: Tables | None = None) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock(1_800_000_000.0)
        self.faults = Faults(self.dice, 0.0, INTERRUPTIONS, KILLS)
        self.tables = tables or Tables()
        self.queues = Queues(self.dice, self.clock)
        self.troubled = True
        self.wells = {"http": Switch(), "tcp": Switch()}
        self.agents: list[SimAgent] = []
        self.starts: dict[str, int] = {}
        self.journals: dict[str, list[Waiting]] = {}
        """What agents have not told AWS yet, by their names."""
        self.ended_instances: list[str] = []
        self.ticks = 0
        self.meddle: Callable[[], None] = lambda: None
        """What users may do while others are in the middle of something."""
        self._busy: list[SimAgent | None] = []
        for queue in QUEUES:
            for lane in LANES:
                self.queues.make(DESCRIPTOR.lane_url(queue, lane))
                self.queues.make(DESCRIPTOR.dead_letter_url(queue, lane))
        self.queues.make(PREFIX + alternate_name(NAME))
        self.pace = Pace(self)
        self._functions()
        calm = Calm(self)
        self.jobs = JobStore(cast("Any", calm.make("dynamodb")), DESCRIPTOR.jobs_table)
        self.conditions = recovery.store(calm)

    @property
    def now(self) -> float:
        """Unix seconds."""
        return self.clock.now

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

    def clients(self, cut_off: Callable[[], bool] = lambda: False) -> NetworkClients:
        """Make clients of one host or function."""
        return NetworkClients(self, cut_off)

    def start_execution(self, name: str, text: str) -> None:
        """Start an execution of the recovery state machine."""
        self.pace.start(name, text)

    def _skewed(self) -> Callable[[], float]:
        skew_s = self.dice.uniform(-SKEW_S / 2, SKEW_S / 2)
        return lambda: self.clock.now + skew_s

    def recovery(self, event: dict[str, Any]) -> dict[str, Any]:
        """Call the recovery function; to its caller its death is an error like others."""
        try:
            return answer(self._recovery, event)
        except Killed:
            raise ClientError({"Error": {"Code": "Lambda.Unknown"}}, "Invoke") from None

    def started(self, job_id: str, by: SimAgent) -> None:
        """Note a start; nobody else may be running the job."""
        self.starts[job_id] = self.starts.get(job_id, 0) + 1
        running = [
            agent
            for agent in self.agents
            for job in agent.running
            if job.attempt.head.job_id == job_id
        ]
        if running != [by]:
            names, head = [agent.name for agent in running], self.jobs.get(job_id)
            raise AssertionError(f"{job_id} runs on {names}: {head and told(head)}")

    def join(self, name: str) -> None:
        """Let an agent start; it beats before it takes anything."""
        agent = SimAgent(self, name, self.dice.uniform(-SKEW_S / 2, SKEW_S / 2))
        agent.renewed = self.clock.now - LEASE_S
        self.agents.append(agent)
        self.let(agent, agent.beat)

    def tick(self) -> None:
        """Let time pass; everybody does what is due."""
        self._pass_time()
        self.pace.tick()
        if self.ticks % MINUTE_TICKS == 0:
            self._every_minute()
        self._instances()
        self._redrive()

    def _pass_time(self) -> None:
        """Let time pass; agents do what is due, the lease even while they are at something."""
        self.ticks += 1
        self.clock.now += TICK_S
        self.faults.arrive(self.clock.now)
        for agent in list(self.agents):
            self.let(agent, agent.beat)
            if agent not in self._busy:
                self.let(agent, agent.extend)
                self.let(agent, agent.work)
        self.agents = [agent for agent in self.agents if agent.alive]

    def interrupt(self) -> None:
        """Let somebody do something in the middle of what others do."""
        if len(self._busy) >= MOST_AT_ONCE:
            return
        others = [agent for agent in self.agents if agent.alive and agent not in self._busy]
        what = self.dice.random()
        if others and what < 0.8:
            agent = self.dice.choice(others)
            self.let(agent, agent.work if what < 0.25 else agent.take_again)
            return
        self._busy.append(None)
        if what < 0.9:
            self.meddle()
        elif what < 0.95:
            self._every_minute()
        else:
            self.pace.tick()
        self._busy.pop()

    def pause(self) -> None:
        """Stands for a pause before a call is tried again: long, for who is cut off."""
        agent = self._busy[-1] if self._busy else None
        if agent is not None and agent.cut_off:
            self._pass_time()
            agent.cut_off = self.dice.random() >= HEALS

    def let(self, agent: SimAgent, act: Callable[[], None]) -> None:
        """Let an agent do something; it may die of it."""
        if not agent.alive:
            return
        self._busy.append(agent)
        try:
            act()
        except Killed:
            agent.die()
        finally:
            self._busy.pop()

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
            failed = {str(key) for key in dead}
            with quietly():
                failed = set(self._dead_letters.handle(records)) if records else set()
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


def told(head: Head) -> str:
    """A job's story, for whoever looks for the end of it."""
    steps = "; ".join(f"{s.at_ms} {s.state} {s.agent or ''} {s.reason}" for s in head.timeline)
    return f"{steps} (wake {head.wake_at_ms}, deadline {head.deadline_ms})"


@contextmanager
def quietly() -> Iterator[None]:
    """A function that failed is called again later."""
    try:
        yield
    except (*TROUBLE, Killed):
        return
