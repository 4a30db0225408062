"""An AWS in memory behind botocore's clients: DynamoDB, SQS, S3 and more.

Each call is validated, seen by hooks and refused as usual; botocore sends nothing
(`tests/support/quick_calls.py`). It takes a hundredth of moto's time. An operation that no test
needs raises AttributeError; a service that is not here is moto's (`tests/support/moto_aws.py`), for
tests that ask for it.
"""

import base64
import copy
import io
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.hooks import EventAliaser, HierarchicalEmitter
from botocore.session import Session

from joblane.aws.fleet.inboxes import NO_SUCH_QUEUE
from joblane.deployment.names import descriptor_name
from joblane.testing.memory.services import (
    S3,
    CloudWatch,
    Events,
    SecretsManager,
    Sns,
    Ssm,
    StepFunctions,
)
from joblane.testing.memory.sqs import Direct, NoFaults, Queues, Sqs
from tests.support.aws import (
    DESCRIPTOR,
    NAME,
    PREFIX,
    Cloud,
    OneEach,
    cloud_of,
    new_session,
    queue_urls,
)
from tests.support.dynamodb import Dynamo, Tables
from tests.support.quick_calls import Hooks, call

Parameters = dict[str, Any]

IN_MEMORY = frozenset(
    (
        "dynamodb",
        "sqs",
        "s3",
        "stepfunctions",
        "sns",
        "ssm",
        "secretsmanager",
        "events",
        "cloudwatch",
    )
)

_PAUSE_S = 0.01
"""Between two looks at a queue of one that waits for messages."""


class Memory:
    """The deployment's resources, and the sessions that reach them."""

    def __init__(
        self, clock: Callable[[], float] = lambda: 1_800_000_000.0, *, polite: bool = False
    ) -> None:
        """`clock` is that of SQS and S3.

        A polite SQS hands messages out in order, and waits for them as long as it was asked to.
        """
        self._lock = Lock()
        self._clock = clock
        self._polite = polite
        self.reset()

    def reset(self) -> None:
        """Empty everything."""
        self.tables = Tables()
        self.queues = Queues(random.Random(1), self._clock, late_s=0, in_order=self._polite)
        for url in _queue_urls():
            self.queues.make(url)
        self.s3 = S3(self._clock)
        self.executions: dict[str, str] = {}
        """The input of each execution, by its name."""
        self._services: dict[str, Any] = {
            "dynamodb": Dynamo(self.tables, lambda _operation, make: make(False)),
            "sqs": Sqs(self.queues, Direct(), NoFaults()),
            "s3": self.s3,
            "stepfunctions": StepFunctions(self.executions),
            "sns": Sns(lambda queue, body: self.queues.send(PREFIX + queue, body, 0, {})),
            "ssm": Ssm({descriptor_name(NAME): _descriptor()}, self._clock),
            "secretsmanager": SecretsManager(),
            "events": Events(),
            "cloudwatch": CloudWatch(),
        }

    def session(self) -> Any:
        """A session whose calls are answered here; hooks on it see them as they see any call."""
        return MemorySession(self)

    def cloud(self) -> Cloud:
        """The deployment, by clients of a session of its own."""
        return cloud_of(self.session, OneEach(self.session()))

    def call(self, service: str, operation: str, parameters: Parameters) -> Parameters:
        """Make a call. Raises ClientError."""
        make = getattr(self._services[service], operation)
        wait_s = parameters.get("WaitTimeSeconds", 0) if self._polite else 0
        until = time.monotonic() + wait_s
        while True:
            with self._lock:
                answer: Parameters = make(**parameters) or {}
            if not wait_s or answer["Messages"] or time.monotonic() > until:
                return answer
            time.sleep(_PAUSE_S)


@cache
def _queue_urls() -> list[str]:
    return queue_urls()


@cache
def _descriptor() -> str:
    return DESCRIPTOR.model_dump_json()


class MemorySession:
    """As much of a session as `Clients` and tests use, whose clients a memory answers.

    Making a client of botocore takes longer than a test: these are copies of one, which differ in
    who is told of their calls.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.hooks: EventAliaser | None = None

    def create_client(self, service: str, config: Config | None = None) -> Any:
        """Make a client."""
        # One that was made before moto was loaded does not know it.
        knows = service in IN_MEMORY or "moto.core.models" in sys.modules
        return _copy(_client(service, config, knows=knows), self)

    def get_component(self, name: str) -> Any:
        """The emitter that tells of the calls of all clients."""
        assert name == "event_emitter"
        if self.hooks is None:
            self.hooks = EventAliaser(HierarchicalEmitter())
        return self.hooks

    def __getattr__(self, name: str) -> Any:
        """What is the same for all sessions."""
        return getattr(_session(), name)


class _Emitter:
    """Tells hooks, then botocore's own handlers; answers calls from the memory."""

    def __init__(self, session: MemorySession, own: Any) -> None:
        self._session = session
        self._hooks: EventAliaser | None = None
        self._own = own

    def emit(self, event_name: str, **arguments: Any) -> list[tuple[Any, Any]]:
        """Tell everybody."""
        told = [emitter.emit(event_name, **arguments) for emitter in self._all()]
        return [each for those in told for each in those]

    def emit_until_response(self, event_name: str, **arguments: Any) -> Any:
        """Tell everybody until somebody answers."""
        for emitter in self._all():
            found = emitter.emit_until_response(event_name, **arguments)
            if found[1] is not None:
                return found
        if event_name.startswith("before-call"):
            service, _ = operation_of(arguments["model"])
            moto = sys.modules.get("moto.core.models")
            assert moto is not None, f"{service} is not in memory, and nobody asked for moto"
            assert moto.botocore_stubber.enabled, f"{service} is not in memory"
        return None, None

    def __getattr__(self, name: str) -> Any:
        """Register hooks of this client alone."""
        self._hooks = self._hooks or EventAliaser(HierarchicalEmitter())
        return getattr(self._hooks, name)

    def hooks(self) -> Hooks | None:
        """Those that are told of calls beside botocore's own handlers; None if there are none."""
        found = [emitter for emitter in (self._session.hooks, self._hooks) if emitter is not None]
        return Hooks(found) if found else None

    def _all(self) -> list[Any]:
        emitters = (self._session.hooks, self._hooks, self._own)
        return [emitter for emitter in emitters if emitter is not None]

    def answer(self, model: Any, context: Parameters) -> Any:
        """Answer in place of the service: see `before-call` in botocore/client.py."""
        service, operation = operation_of(model)
        memory, answer = self._session.memory, Parameters()
        status = 200
        try:
            answer |= memory.call(service, operation, context["parameters"])
        except ClientError as error:
            status, answer = 400, {**error.response}
            if answer["Error"]["Code"] == NO_SUCH_QUEUE:  # its exception has another name
                context["error_code_override"] = "QueueDoesNotExist"
        response = _Response(status, answer)
        return response, {**answer, "ResponseMetadata": {"HTTPStatusCode": status}}


@cache
def _session() -> Session:
    return new_session()


@cache
def _client(service: str, config: Config | None, *, knows: bool) -> Any:
    del knows
    if service not in IN_MEMORY:
        return new_session().create_client(service, config=config)
    client: Any = _session().create_client(service, config=config)
    made: Any = object.__new__(type(service, (type(client),), _methods(client)))
    vars(made).update(vars(client))
    return made


def _methods(client: Any) -> dict[str, Callable[..., Parameters]]:
    """The operations of a client, made quickly."""

    def method(operation: str) -> Callable[..., Parameters]:
        def make(self: Any, **parameters: Any) -> Parameters:
            events = self.meta.events
            if isinstance(parameters.get("Body"), bytes):
                parameters["Body"] = io.BytesIO(parameters["Body"])
            return call(self, events.hooks(), operation, parameters, events.answer)

        return make

    return {name: method(to) for name, to in client.meta.method_to_api_mapping.items()}


def _copy(client: Any, session: MemorySession) -> Any:
    copied = object.__new__(type(client))
    vars(copied).update(vars(client))
    copied.meta = copy.copy(client.meta)
    copied.meta.events = _Emitter(session, client.meta.events)
    return copied


def operation_of(model: Any) -> tuple[str, str]:
    """The names of a call's service and operation, as clients have them."""
    return model.service_model.service_name, xform_name(model.name)


@dataclass(frozen=True)
class _Response:
    """As much of an HTTP response as botocore and tests look at."""

    status_code: int
    answer: Parameters

    @property
    def content(self) -> bytes:
        """What a service would have sent."""
        return json.dumps(self.answer, default=_base64).encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
