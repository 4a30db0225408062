"""What one host's or function's calls of AWS meet: throttles, lost answers, others in between.

A call may be refused; it may be made and its answer lost; its caller may give it up and it
arrives a minute later all the same; before it and after it others do theirs; and its caller may
be killed right after it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from joblane.aws.clients import Clients
from joblane.aws.errors import translated
from joblane.testing.memory.sqs import Queues, Sqs
from tests.support.dynamodb import READS, Dynamo, Tables

T = TypeVar("T")

TROUBLE = (ClientError, BotoCoreError)

LATE_S = 45.0
"""A call that its caller gave up still arrives within this time; a kernel goes on sending what a
closed connection had left to send. A message waits a minute for its job (`dispose_missing`)."""


class Killed(BaseException):
    """The host or function that made a call died after it."""


@dataclass
class Faults:
    """How much trouble there is now: shares of the calls, but for `kills` all of `share`."""

    rng: random.Random
    share: float
    interruptions: float = 0.0
    """Before and after each write, and a third of it before each read."""
    kills: float = 0.0
    made: int = 0
    failed: int = 0
    interrupted: int = 0
    killed: int = 0
    late: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    """Calls on their way whose callers wait no longer, and when they arrive."""

    def hit(self, of: float = 1.0) -> bool:
        """Whether it happens now."""
        return self.rng.random() < self.share * of

    def arrive(self, now: float) -> None:
        """Let arrive what is due."""
        due = [call for at, call in self.late if at <= now]
        self.late = [entry for entry in self.late if entry[0] > now]
        for call in due:
            try:
                call()
            except ClientError:
                continue  # refused, and nobody hears it


class Around(Protocol):
    """What a network asks of its world."""

    faults: Faults
    queues: Queues
    tables: Tables

    @property
    def now(self) -> float:
        """Unix seconds."""

    def interrupt(self) -> None:
        """Let others do something."""

    def start_execution(self, name: str, text: str) -> None:
        """Start an execution."""


class Network:
    """The way to AWS of one host or function."""

    def __init__(self, world: Around, is_cut_off: Callable[[], bool]) -> None:
        self._world = world
        self._is_cut_off = is_cut_off

    @translated
    def call(self, make: Callable[[], T], *, writes: bool) -> T:
        """Make a call as the SDK does, with whatever happens to it."""
        world, faults = self._world, self._world.faults
        faults.made += 1
        self._others(1.0 if writes else 0.3)
        if self._is_cut_off():
            raise ReadTimeoutError(endpoint_url="https://aws.test")
        if faults.hit():
            faults.failed += 1
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Any")
        if writes and faults.hit(0.5):
            faults.failed += 1
            faults.late.append((world.now + faults.rng.uniform(0, LATE_S), make))
            raise ReadTimeoutError(endpoint_url="https://aws.test")
        answer = make()
        if writes:
            self._others(1.0)
            if faults.rng.random() < faults.kills:
                faults.killed += 1
                raise Killed
        if faults.hit():  # the answer is lost, and the SDK's next try meets what the first did
            answer = make()
        if faults.hit():
            faults.failed += 1
            raise ReadTimeoutError(endpoint_url="https://aws.test")
        return answer

    def _others(self, share: float) -> None:
        faults = self._world.faults
        if faults.rng.random() < faults.interruptions * share:
            faults.interrupted += 1
            self._world.interrupt()


class NetworkClients(Clients):
    """Makes the clients of one host or function."""

    def __init__(self, world: Around, is_cut_off: Callable[[], bool]) -> None:
        network = Network(world, is_cut_off)

        def dynamodb(operation: str, make: Callable[[bool], Any]) -> Any:
            stale = world.faults.hit(3.0)
            return network.call(lambda: make(stale), writes=operation not in READS)

        self._made: dict[str, Any] = {
            "dynamodb": Dynamo(world.tables, dynamodb),
            "sqs": Sqs(world.queues, network, world.faults),
            "stepfunctions": _StepFunctions(world, network),
            "sns": _Sns(network),
            "lambda": None,  # the world tests conditions itself
        }

    def make(self, service: str, config: Any = None) -> Any:
        """Hand out a client."""
        return self._made[service]


class _StepFunctions:
    """A client of Step Functions, as far as the product uses it."""

    def __init__(self, world: Around, network: Network) -> None:
        self._world = world
        self._network = network

    def start_execution(self, *, name: str, input: str, **_: Any) -> None:
        """Start an execution."""
        self._network.call(lambda: self._world.start_execution(name, input), writes=True)


class _Sns:
    """A client of SNS that nobody listens to."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def publish(self, **_: Any) -> None:
        """Tell nobody."""
        self._network.call(lambda: None, writes=False)
