"""The SDK: `Client`, and `Job`, its handle of a job.

    with Client(url, token) as client:
        job = client.submit(["make", "test"], timeout_s=300)
        for record in job.logs(follow=True):
            print(record.text, end="")
        print(job.wait().exit_code)

Each method raises a `joblane.JoblaneError`; reads have been retried before.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from joblane.client.answers import JobJson, LogRecord
from joblane.client.calls import Call, Item, Request, Sleep, Stream, as_stream
from joblane.client.connection import Connection
from joblane.client.credentials import Credential, StaticToken
from joblane.client.errors import JoblaneError
from joblane.client.handle import JobValues
from joblane.client.operations import Operations
from joblane.client.profiles import ConnectionOptions, Endpoint, find_endpoint
from joblane.client.transport import Certificate

P = ParamSpec("P")
T = TypeVar("T")


class Job(JobValues):
    """A job as it was when it was last read, with the calls that concern it."""

    def __init__(self, client: "Client", data: JobJson) -> None:
        super().__init__(data)
        self._client = client

    def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = self._client.get(self.id).data
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = self._client.wait(self.id, timeout_s).data
        return self

    def logs(self, *, follow: bool = False) -> Iterator[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow)


def _returns(
    method: Callable[Concatenate[Operations[Job], P], Call[T]],
) -> Callable[Concatenate["Client", P], T]:
    """Make the method of `Client` that runs a call."""

    @wraps(method)
    def run(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with closing(self._run(as_stream(method(self._operations, *args, **kwargs)))) as items:
            return next(items)

    return run


def _yields(
    method: Callable[Concatenate[Operations[Job], P], Stream[T]],
) -> Callable[Concatenate["Client", P], Iterator[T]]:
    """Make the method of `Client` that runs a stream."""

    @wraps(method)
    def run(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._run(method(self._operations, *args, **kwargs))

    return run


class Client:
    """A client of the API at `url`, such as `https://abc.execute-api.eu-west-1.amazonaws.com`.

    `token` is a bearer token or a source of tokens. Raises `ConfigError` when the URL, the token
    or the certificate is invalid. Not safe for several threads at once.
    """

    def __init__(
        self,
        url: str,
        token: str | Credential | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        credential = StaticToken(token) if token is None or isinstance(token, str) else token
        self._connection = Connection(url, credential, certificate)
        self._operations = Operations(lambda data: Job(self, data))

    @classmethod
    def from_env(cls) -> Self:
        """Use the environment or a profile, see `joblane.client.profiles`.

        Raises `ConfigError` when neither names an API.
        """
        return cls.from_endpoint(find_endpoint(ConnectionOptions()))

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint) -> Self:
        """Use the API that `joblane.client.profiles.find_endpoint` has found."""
        return cls(endpoint.url, endpoint.credential, endpoint.certificate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connection.close()

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return self._connection.url

    def _run(self, call: Stream[T]) -> Generator[T, None, None]:
        """Do what a call yields: send its requests, sleep, and yield its items."""
        answer: object = None
        error: JoblaneError | None = None
        with closing(call):
            while True:
                try:
                    step = call.send(answer) if error is None else call.throw(error)
                except StopIteration:
                    return
                answer = error = None
                match step:
                    case Item():
                        yield step.value
                    case Sleep():
                        time.sleep(step.seconds)
                    case Request():
                        try:
                            answer = self._connection.send(step)
                        except JoblaneError as failure:
                            error = failure

    submit = _returns(Operations.submit)
    submit_batch = _returns(Operations.submit_batch)
    get = _returns(Operations.get)
    list = _yields(Operations.list)
    list_page = _returns(Operations.list_page)
    logs = _yields(Operations.logs)
    follow = _yields(Operations.follow)
    log_page = _returns(Operations.log_page)
    wait = _returns(Operations.wait)
    cancel = _returns(Operations.cancel)
    retry = _returns(Operations.retry)
    resubmit = _returns(Operations.resubmit)
    hide = _returns(Operations.hide)
    unhide = _returns(Operations.unhide)
    delete = _returns(Operations.delete)
    dead_letters = _returns(Operations.dead_letters)
    replay = _returns(Operations.replay)
    dismiss = _returns(Operations.dismiss)
    queues = _returns(Operations.queues)
    queue = _returns(Operations.queue)
    set_queue = _returns(Operations.set_queue)
    requeue = _yields(Operations.requeue)
    restart_failed = _yields(Operations.restart_failed)
    agents = _returns(Operations.agents)
    agent = _returns(Operations.agent)
    drain = _returns(Operations.drain)
    conditions = _returns(Operations.conditions)
    declare = _returns(Operations.declare)
    audit = _returns(Operations.audit)
    health = _returns(Operations.health)
