"""The recovery stack in this process: its table, its state machine, and who runs it."""

import json
from dataclasses import dataclass, field
from math import inf
from typing import Any

from functions.recovery.handler import Settings, build
from infra.recovery_machine import definition
from joblane.aws.clients import Clients
from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.executions import Executions
from joblane.aws.condition.places import ConditionPlaces
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import LaneQueue, Received, read_body
from joblane.deployment.limits import Limits
from joblane.deployment.names import Lane, table_name
from joblane.job.head import make_head
from joblane.job.moves import AttemptFacts
from joblane.service.condition.recover import MAX_STEPS
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.service.condition.testers import BadParameters, Finding, Tester
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from tests.support.aws import DESCRIPTOR, NAME, PREFIX, Cloud
from tests.support.jobs import JOB, submission
from tests.support.machine import Machine
from tests.support.memory import Memory

TABLE = table_name(NAME, "conditions")
MACHINE_ARN = f"arn:aws:states:us-east-1:123456789012:stateMachine:{NAME}-recovery"

ENVIRONMENT = {
    "JOBLANE_DEPLOYMENT": NAME,
    "JOBLANE_JOBS_TABLE": DESCRIPTOR.jobs_table,
    "JOBLANE_AGENTS_TABLE": DESCRIPTOR.agents_table,
    "JOBLANE_CONDITIONS_TABLE": TABLE,
    "JOBLANE_QUEUE_URL_PREFIX": PREFIX,
    "JOBLANE_RECOVERY_ARN": MACHINE_ARN,
    "JOBLANE_TENANT_QUEUES": '{"acme": ["default", "bulk"]}',
    "JOBLANE_FLEET_QUEUES": '{"main": ["default"]}',
    "JOBLANE_POLICIES": "{}",
    "JOBLANE_TESTER_FUNCTION": f"{NAME}-tester",
    "JOBLANE_RETENTION": "{}",
    "JOBLANE_LIMITS": "{}",
}


def store(clients: Clients) -> ConditionStore:
    """The conditions of a deployment."""
    return ConditionStore(clients.make("dynamodb"), TABLE)


def supervisor(clients: Clients, limits: Limits | None = None) -> ConditionSupervisor:
    """What an agent joins conditions with."""
    return ConditionSupervisor(
        store(clients),
        Executions(clients.make("stepfunctions"), MACHINE_ARN),
        ConditionPlaces(clients.make("dynamodb"), TABLE),
        limits or Limits(),
    )


@dataclass
class Switch(Tester):
    """A tester that says what it is told to, and counts how often it was asked."""

    allow: int = 0
    bad: str | None = None
    why: str | None = None
    asked: int = 0

    def test(self, parameter: str) -> Finding:
        """Answer as set."""
        self.asked += 1
        if self.bad is not None:
            raise BadParameters(self.bad)
        return Finding(self.allow, self.why or f"{parameter} allows {self.allow}")


@dataclass
class World:
    """A deployment with recovery, an agent's side of it, and a clock that jumps.

    `clients` are those of the function and of the agent; tests meter or break their session.
    What only looks or prepares uses those of `aws`.
    """

    aws: Cloud
    clients: Clients
    policies: dict[str, Any] = field(default_factory=dict)
    max_steps: int = MAX_STEPS
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
    http: Switch = field(default_factory=Switch)
    tcp: Switch = field(default_factory=Switch)

    def __post_init__(self) -> None:
        self.use(self.clients)
        self.machine = Machine(
            self.aws.clients.make("stepfunctions"),
            MACHINE_ARN,
            definition("function"),
            self.function,
            self.clock,
        )

    def recover(self, allow: int = 10, seconds: float = inf) -> None:
        """Let tests of HTTP conditions allow so many jobs, and time pass."""
        self.http.allow = allow
        self.machine.run(seconds)

    def use(self, clients: Clients) -> None:
        """Let the function and the agent make their calls with other clients."""
        self.clients = clients
        self.conditions = store(clients)
        self.supervisor = supervisor(clients, self.limits)
        self.jobs = JobStore(clients.make("dynamodb"), DESCRIPTOR.jobs_table)
        self.sqs = clients.make("sqs")

    def function(self, event: dict[str, Any]) -> dict[str, Any]:
        """Call the function, freshly started."""
        settings = Settings.model_validate(
            {
                **ENVIRONMENT,
                "JOBLANE_POLICIES": json.dumps(self.policies),
                "JOBLANE_LIMITS": self.limits.model_dump_json(),
            }
        )
        testers = {"http": self.http, "tcp": self.tcp}
        function = build(settings, self.clients, self.clock, testers, self.max_steps)
        return function.answer(event)

    @property
    def now_ms(self) -> int:
        """The time."""
        return int(self.clock.now * 1000)

    def lane(self, lane: Lane = "default") -> LaneQueue:
        """A lane of the queue `default`."""
        return LaneQueue(self.sqs, DESCRIPTOR.lane_url("default", lane))

    def submit(self, number: int, tenant: str = "acme", **spec: object) -> str:
        """Submit a job; a later number is a later id."""
        job_id = f"{JOB[:22]}{number:04d}"
        head = make_head(job_id, tenant, submission(**spec), self.now_ms)
        url = DESCRIPTOR.lane_url("default", head.spec.priority)
        queue = LaneQueue(self.aws.clients.make("sqs"), url)
        queue.send(wake_up_message(head))
        self.aws.jobs.put_new(head)
        return job_id

    def block(self, received: Received, condition: str) -> None:
        """What an agent does with a job that exits 75: claim, block, join, let go."""
        try:
            head = self.jobs.claim(read_body(received.body), "agent-1", self.now_ms)
        except Refused as refusal:
            if refusal.head is None:
                raise
            head = refusal.head
        if head.state is State.ACTIVE:
            step = Step(State.BLOCKED, self.now_ms, head.attempt - 1, "exit code 75", records=0)
            head = self.jobs.block(
                head, step, condition, AttemptFacts(Outcome.BLOCKED, exit_code=75)
            )
        if head.condition is not None:
            why = self.supervisor.join(head.condition, head, self.now_ms)
            if why is not None:
                self.jobs.note_untested(head, why)
        self.lane(head.spec.priority).delete(received.receipt)

    def submit_and_block(
        self, condition: str, count: int = 1, first: int = 0, tenant: str = "acme"
    ) -> list[str]:
        """Jobs that wait for a condition."""
        ids = [self.submit(first + number, tenant) for number in range(count)]
        for received in self.receive_all():
            self.block(received, condition)
        return ids

    def receive_all(self) -> list[Received]:
        """Every message that is visible in the default lane, which it hides."""
        lane = LaneQueue(self.aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
        found: list[Received] = []
        while more := lane.receive(10, 0):
            found += more
        return found

    def states(self, job_ids: list[str]) -> list[State]:
        """Where jobs are."""
        heads = [self.aws.jobs.get(job_id) for job_id in job_ids]
        return [head.state for head in heads if head is not None]

    def reason(self, job_id: str) -> str:
        """Why a job is where it is."""
        head = self.aws.job(job_id)
        return head.timeline[-1].reason


def in_memory() -> World:
    """A world whose calls are answered in this process, in a tenth of the time that moto takes."""
    aws = Memory().cloud()
    return World(aws, aws.clients)
