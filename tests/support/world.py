"""A small world: the real functions and agents over an AWS that misbehaves, on one clock.

What reads and writes AWS is the product's; the tables and SQS are in memory, and time, the pace
of Step Functions and EventBridge, and the jobs' processes are simulated.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from botocore.exceptions import ClientError

from ec2_agent.state.memory import MemoryBackend
from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.instance_end import handler as instance_end
from functions.recovery import handler as recover
from functions.requeue import handler as requeue
from functions.sequel import handler as sequel
from functions.submission import handler as submission
from infra.recovery_machine import definition
from joblane.aws.job.jobs import JobStore
from joblane.aws.key.keys import KeyStore, StoredKey
from joblane.deployment.names import LANES
from joblane.job.head import Head
from joblane.key.segments import KeyName
from joblane.queue.tenant_shares import Allowance
from joblane.state.lease import HEARTBEAT_S
from joblane.testing.clock import Clock
from joblane.testing.inline import Inline
from joblane.testing.memory.sqs import Queues
from joblane.testing.memory.stream import JobsStream, Record
from tests.support import recovery
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, KEYS_TABLE, NAME, queue_urls
from tests.support.dynamodb import Dynamo, Tables
from tests.support.machine import Execution, Machine
from tests.support.network import TROUBLE, Faults, Killed, NetworkClients
from tests.support.recovery import MACHINE_ARN, Switch
from tests.support.requests import Api
from tests.support.simulated_agent import SimAgent
from tests.support.temporary import temporary_folder

SKEW_S = 5.0
"""Largest difference of two hosts' clocks."""

UNLIMITED = 100
"""A share of an agent that no tenant reaches."""

TICK_S = HEARTBEAT_S
MINUTE_TICKS = 6

MOST_RECEIVES = 40
"""After which SQS moves a message to its lane's dead-letter queue: far fewer than deployed, so
that it happens here."""

INTERRUPTIONS = 0.1
"""How often other agents or functions act before, and after, a write."""

KILLS = 0.015
"""How often a function or host is killed right after a write."""

HEALS = 0.01
"""How often an agent that is cut off reaches AWS again, each `TICK_S`."""

COMES_AGAIN = 0.1
"""How often the stream delivers a batch again that was handled."""

MOST_AT_ONCE = 3
"""Most agents and functions in the middle of a call."""

POLICIES = {
    "app": {"policy": "exponential", "first_s": 10, "longest_s": 120, "most_s": 1800},
    "http": {"policy": "constant", "every_s": 20, "most_s": 900},
}

CONDITIONS = ("http:https://api.example.com/health", "tcp:db.example.com:5432", "app:ledger")


class Pace(Machine):
    """Step Functions executions, advanced by ticks; failures are delivered as events."""

    def __init__(self, world: "World") -> None:
        function = definition("function")
        super().__init__(None, MACHINE_ARN, function, world.recovery, world.clock)
        self.events: list[dict[str, Any]] = []
        self._stepping: set[str] = set()

    def start(self, name: str, text: str) -> None:
        """Start an execution. Raises Step Functions' error for a name that is taken."""
        if name in self.executions:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        data = json.loads(text)
        self.executions[name] = Execution(name, data, "Begin", data, self._clock.now)

    def tick(self) -> None:
        """Run what is due, and deliver failures until the function accepts them."""
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
        """Conditions with a running execution or an undelivered failure."""
        inputs = [e.input for e in self.running()]
        inputs += [json.loads(event["detail"]["input"]) for event in self.events]
        return {str(data["condition"]) for data in inputs}

    def _find_new(self) -> None:
        pass

    def _fail(self, execution: Execution) -> None:
        execution.status = "FAILED"
        detail = {"status": "FAILED", "input": json.dumps(execution.input)}
        self.events.append({"detail": detail})


class Calm(NetworkClients):
    """Clients of the test itself: without faults."""

    def __init__(self, world: "World") -> None:
        super().__init__(world, lambda: False)
        self._made["dynamodb"] = Dynamo(world.tables, lambda _operation, make: make(False))


class World:
    """The whole simulation; checks that no job runs twice at once."""

    def __init__(self, seed: int, tables: Tables | None = None) -> None:
        self.rng = random.Random(seed)
        self.id_dice = random.Random(seed + 2)
        """Makes jobs' ids."""
        self.clock = Clock(1_800_000_000.0)
        self.faults = Faults(self.rng, 0.0, INTERRUPTIONS, KILLS)
        self.tables = tables or Tables()
        self._stream = JobsStream(self.tables, self.clock)
        self.ends: list[Record] = []
        """Records of keyed jobs that the stream has not finished with, oldest first."""
        self.stream_is_lost = False
        """Whether nothing reads the stream, until its records are gone."""
        self.queues = Queues(self.rng, self.clock)
        self.troubled = True
        self.wells = {"http": Switch(), "tcp": Switch()}
        self.agents: list[SimAgent] = []
        self.starts: dict[str, int] = {}
        self.broken: list[Exception] = []
        """What the simulation of an attempt raised."""
        self._records: dict[str, MemoryBackend] = {}
        """Records of the agents' state services, by agent; they outlive its processes."""
        self._directory = temporary_folder("agents")
        self.small = "agent-1"
        """The agent that gives a job less memory than others."""
        self.shares = [(0.0, UNLIMITED)]
        """When a tenant's share of each agent was changed last, and to what; the latest last."""
        self.ended_instances: list[str] = []
        self.ticks = 0
        self.meddle: Callable[[], None] = lambda: None
        """What users do while agents and functions are in the middle of a call."""
        self._busy: list[SimAgent | None] = []
        for url in queue_urls():
            self.queues.make(url)
        self.pace = Pace(self)
        self._functions()
        calm = Calm(self)
        self.jobs = JobStore(cast("Any", calm.make("dynamodb")), DESCRIPTOR.jobs_table)
        self.conditions = recovery.store(calm)
        self.keys = KeyStore(cast("Any", calm.make("dynamodb")), KEYS_TABLE)

    @property
    def now(self) -> float:
        """Unix seconds."""
        return self.clock.now

    def _functions(self) -> None:
        """Make each function as its `main` does, with faulty clients of its own."""
        make, late = self.clients, self._skewed
        environment = FUNCTION_ENVIRONMENT
        self.api = Api(
            submission.build(
                submission.Settings.model_validate(environment),
                make(),
                late(),
                Inline,
                self.id_dice.getrandbits,
            )
        )
        administration = admin.build(
            admin.Settings.model_validate(environment), make(), late(), Inline
        )
        self.operator = Api(administration)
        self.platform = Api(administration, "client-platform")
        self._requeue = requeue.build(
            requeue.Settings.model_validate(environment), make(), late(), Inline
        )
        self._sequel = sequel.build(
            sequel.Settings.model_validate(environment), make(), late(), Inline
        )
        self._dead_letters = dead_letter.build(
            dead_letter.Settings.model_validate(environment), make(), late()
        )
        self._instance_end = instance_end.build(
            instance_end.Settings.model_validate(environment), make(), late()
        )
        settings = recover.Settings.model_validate(
            {**recovery.ENVIRONMENT, "JOBLANE_POLICIES": json.dumps(POLICIES)}
        )
        self._recovery = recover.build(settings, make(), late(), self.wells)

    def clients(self, cut_off: Callable[[], bool] = lambda: False) -> NetworkClients:
        """Make the clients of one host or function."""
        return NetworkClients(self, cut_off)

    def start_execution(self, name: str, text: str) -> None:
        """Start an execution of the recovery state machine."""
        self.pace.start(name, text)

    def _skewed(self) -> Callable[[], float]:
        skew_s = self.rng.uniform(-SKEW_S / 2, SKEW_S / 2)
        return lambda: self.clock.now + skew_s

    def recovery(self, event: dict[str, Any]) -> dict[str, Any]:
        """Call the recovery function; when it is killed, its caller gets an error."""
        try:
            return self._recovery.answer(event)
        except Killed:
            raise ClientError({"Error": {"Code": "Lambda.Unknown"}}, "Invoke") from None

    def started(self, job_id: str, by: SimAgent) -> None:
        """Count a start; no other agent may be running the job."""
        self.starts[job_id] = self.starts.get(job_id, 0) + 1
        running = [
            agent for agent in self.agents for job in agent.running if job.head.job_id == job_id
        ]
        if running != [by]:
            names, head = [agent.name for agent in running], self.jobs.get(job_id)
            raise AssertionError(f"{job_id} runs on {names}: {head and told(head)}")
        assigned = next(job.head.assigned for job in by.running if job.head.job_id == job_id)
        assert assigned in {None, by.name}, f"{job_id} runs on {by.name}, and is {assigned}'s"
        by.check_served(job_id)
        self._hold_limit(by)

    def _hold_limit(self, by: SimAgent) -> None:
        """No more jobs of a key run than it has slots, on hosts that are cut off too."""
        running = [job.head for agent in self.agents for job in agent.running]
        for key in {job.head.key for job in by.running} - {None}:
            heads = [head for head in running if head.key == key]
            most = self.key("acme", cast("KeyName", key)).state.limits.max_active
            if len(heads) > most:
                raise AssertionError(f"of {most} slots: {[told(head) for head in heads]}")

    def join(self, name: str) -> None:
        """Start an agent."""
        agent = SimAgent(self, name, self.rng.uniform(-SKEW_S / 2, SKEW_S / 2))
        self.agents.append(agent)
        self.let(agent, agent.start)

    def directory_of(self, name: str) -> Path:
        """The directory of an agent, where a cordon outlives its process."""
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        return directory

    def share_of(self, _tenant: str) -> Allowance:
        """What a tenant may run on one agent."""
        share = self.shares[-1][1]
        return Allowance(4 * share, share)

    def records_of(self, name: str) -> MemoryBackend:
        """Records of an agent's state service."""
        return self._records.setdefault(name, MemoryBackend())

    def tick(self) -> None:
        """Advance the time by `TICK_S`; agents and functions run what is due."""
        self._pass_time()
        self.pace.tick()
        self._follow()
        if self.ticks % MINUTE_TICKS == 0:
            self._every_minute()
        self._instances()
        self._redrive()
        for error in self.broken:
            raise error
        for agent in self.agents:
            agent.check_idle()

    def _pass_time(self) -> None:
        """Advance the time; agents run each timer when it is due."""
        self.ticks += 1
        end = self.clock.now + TICK_S
        while (due := min((agent.loop.due for agent in self.agents), default=end)) < end:
            self.clock.now = max(self.clock.now, due)
            for agent in list(self.agents):
                self.let(agent, agent.loop.run)
        self.clock.now = end
        self.faults.arrive(end)
        for agent in list(self.agents):
            if agent.cut_off and self.rng.random() < HEALS:
                agent.cut_off = False
            self.let(agent, agent.work)
        self.agents = [agent for agent in self.agents if agent.alive]

    def interrupt(self) -> None:
        """Let an agent, a user or a function act in the middle of a call."""
        if len(self._busy) >= MOST_AT_ONCE:
            return
        others = [agent for agent in self.agents if agent.alive and agent not in self._busy]
        what = self.rng.random()
        if others and what < 0.8:
            agent = self.rng.choice(others)
            self.let(agent, agent.work if what < 0.25 else agent.take_again)
            return
        self._busy.append(None)
        if what < 0.9:
            self.meddle()
        elif what < 0.93:
            self._every_minute()
        elif what < 0.96:
            self._follow()
        else:
            self.pace.tick()
        self._busy.pop()

    def let(self, agent: SimAgent, act: Callable[[], None]) -> None:
        """Let an agent act; a call may kill it."""
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
        """EventBridge's schedule; in one call of ten the time ends early."""
        left = iter(self.rng.choices([100.0, 1.0], [9, 1], k=100))
        with quietly():
            self._requeue.run(lambda: next(left))

    def _follow(self) -> None:
        """The stream's records of keyed jobs, in order; a batch until the function accepts it."""
        records = self._stream.take()
        if self.stream_is_lost:
            self.ends = []
            return
        self.ends += [record for record in records if _is_keyed(record)]
        batch = self.ends[: self.rng.randint(1, 10)]
        with quietly():
            self._sequel.handle(batch)
            if self.rng.random() > COMES_AGAIN:
                self.ends = [record for record in self.ends if record not in batch]

    def follows(self, head: Head) -> bool:
        """Whether a record of the stream will let a job go that has a slot of its key."""
        return head.key is not None and any(
            job["follows"]["M"]["k"]["S"] == head.key.encode()
            for record in (*self.ends, *self._stream.records)
            for job in _images(record)
            if "follows" in job
        )

    def key(self, tenant: str, name: KeyName) -> StoredKey:
        """A key as it is."""
        return self.keys.get(tenant, name, 0)

    def _instances(self) -> None:
        """EC2's events of terminated instances, until the function accepts them."""
        for name in list(self.ended_instances):
            with quietly():
                self._instance_end.free(name)
                self.ended_instances.remove(name)

    def _redrive(self) -> None:
        """Move messages received too often to the dead-letter queue, and handle them."""
        for lane in LANES:
            url = DESCRIPTOR.lane_url("default", lane)
            source, name = self.queues.entries[url], url.rpartition("/")[2]
            dead = self.queues.entries[DESCRIPTOR.dead_letter_url]
            for key in [k for k, e in source.items() if e.receives > MOST_RECEIVES]:
                dead[key] = source.pop(key)
            records = [_record(key, entry, name) for key, entry in dead.items()]
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
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{NAME}-dlq",
        "attributes": {
            "ApproximateReceiveCount": str(entry.receives),
            "DeadLetterQueueSourceArn": f"arn:aws:sqs:us-east-1:123456789012:{lane}",
        },
        "messageAttributes": {
            name: {"stringValue": value["StringValue"]} for name, value in entry.attributes.items()
        },
    }


def _images(record: Record) -> list[Any]:
    stream = record["dynamodb"]
    return [stream[name] for name in ("NewImage", "OldImage") if name in stream]


def _is_keyed(record: Record) -> bool:
    return any("follows" in image for image in _images(record))


def told(head: Head) -> str:
    """A job's timeline, for failure messages."""
    steps = "; ".join(f"{s.at_ms} {s.state} {s.agent or ''} {s.reason}" for s in head.timeline)
    return f"{steps} (wake {head.wake_at_ms}, deadline {head.deadline_ms})"


@contextmanager
def quietly() -> Iterator[None]:
    """Ignore a function's failure: it is called again later."""
    try:
        yield
    except (*TROUBLE, Killed):
        return
