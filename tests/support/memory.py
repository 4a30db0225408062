"""An AWS in memory behind botocore's clients: DynamoDB, SQS, S3 and more.

Each call is validated, seen by hooks and refused as usual; botocore sends nothing. It takes a tenth
of moto's time, for tests that make tens of thousands of calls. An operation that no such test needs
raises AttributeError. `tests/support/mirror.py` makes each call here and to moto, and compares the
answers.
"""

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import botocore.session
from botocore import xform_name
from botocore.exceptions import ClientError

from tests.support.aws import Cloud, OneEach, cloud_of, new_session, queue_urls
from tests.support.dynamodb import Dynamo, Tables
from tests.support.network import Faults
from tests.support.sqs import Queues, Sqs

T = TypeVar("T")

Parameters = dict[str, Any]


class Memory:
    """The deployment's resources, and the sessions that reach them."""

    def __init__(self, clock: Callable[[], float] = lambda: 1_800_000_000.0) -> None:
        """`clock` is that of SQS."""
        self._lock = Lock()
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Empty everything."""
        self.tables = Tables()
        self.queues = Queues(random.Random(1), self._clock, late_s=0)
        for url in queue_urls():
            self.queues.make(url)
        self.executions: dict[str, str] = {}
        """The input of each execution, by its name."""
        self._services: dict[str, Any] = {
            "dynamodb": Dynamo(self.tables, lambda _operation, make: make(False)),
            "sqs": Sqs(self.queues, Direct(), Faults(random.Random(1), 0.0)),
            "s3": _S3(),
            "stepfunctions": _StepFunctions(self.executions),
            "sns": _Sns(),
        }

    def session(self) -> botocore.session.Session:
        """A session whose calls are answered here; hooks on it see them as they see any call."""
        session = new_session()
        emitter = session.get_component("event_emitter")
        emitter.register("provide-client-params", _keep_parameters)
        emitter.register_last("before-call", self._answer)
        return session

    def cloud(self) -> Cloud:
        """The deployment, by clients of a session of its own."""
        return cloud_of(OneEach(self.session()))

    def call(self, service: str, operation: str, parameters: Parameters) -> Parameters:
        """Make a call. Raises ClientError."""
        with self._lock:
            return getattr(self._services[service], operation)(**parameters) or {}

    def _answer(self, model: Any, context: Parameters, **_: Any) -> tuple[Any, Parameters]:
        """Answer in place of the service: see `before-call` in botocore/client.py."""
        service, operation = operation_of(model)
        status, answer = 200, Parameters()
        try:
            answer |= self.call(service, operation, context["parameters"])
        except ClientError as error:
            status, answer = 400, {**error.response}
        answer["ResponseMetadata"] = {"HTTPStatusCode": status}
        return _Response(status), answer


def operation_of(model: Any) -> tuple[str, str]:
    """The names of a call's service and operation, as clients have them."""
    return model.service_model.service_name, xform_name(model.name)


def _keep_parameters(params: Parameters, context: Parameters, **_: Any) -> None:
    context["parameters"] = params


@dataclass(frozen=True)
class _Response:
    """As much of an HTTP response as botocore looks at."""

    status_code: int
    content: bytes = b""


class Direct:
    """A way to SQS on which nothing happens."""

    def call(self, make: Callable[[], T], *, writes: bool) -> T:  # noqa: ARG002 - see Way
        """Make a call."""
        return make()


class Body(io.BytesIO):
    """What botocore gives to read an object."""

    def iter_chunks(self, size: int = 1024) -> Iterator[bytes]:
        """Read it piece by piece."""
        while data := self.read(size):
            yield data


class _S3:
    """A client of S3."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def put_object(self, **request: Any) -> None:
        """Store an object."""
        self._objects[request["Key"]] = request["Body"].read()  # botocore has made it a file

    def get_object(self, **request: Any) -> Parameters:
        """Read an object."""
        if request["Key"] not in self._objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": Body(self._objects[request["Key"]])}

    def delete_object(self, **request: Any) -> None:
        """Delete an object; one that is not there is no error."""
        self._objects.pop(request["Key"], None)


class _StepFunctions:
    """A client of Step Functions: keeps executions, and refuses names that are taken."""

    def __init__(self, executions: dict[str, str]) -> None:
        self._executions = executions

    def start_execution(self, **request: Any) -> Parameters:
        """Start an execution; the same name with the same input is no error while it runs."""
        name = request["name"]
        if self._executions.setdefault(name, request["input"]) != request["input"]:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        return {"executionArn": name}

    def list_executions(self, **_: Any) -> Parameters:
        """List all executions, newest first."""
        names = reversed(self._executions)
        return {"executions": [{"name": name, "executionArn": name} for name in names]}

    def describe_execution(self, **request: Any) -> Parameters:
        """The input of one execution."""
        name = request["executionArn"]
        return {"name": name, "input": self._executions[name]}


class _Sns:
    """A client of SNS without subscribers."""

    def publish(self, **_: Any) -> None:
        """Publish a message."""
