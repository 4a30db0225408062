"""The SDK for asyncio: `AsyncClient`, and `AsyncJob`, its handle of a job.

async with AsyncClient(url, token) as client:
    job = await client.submit(["make", "test"], timeout_s=300)
    async for record in job.logs(follow=True):
        print(record.text, end="")
    print((await job.wait()).exit_code)
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, closing
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from joblane.client.answers import JobJson, LogRecord
from joblane.client.calls import Call, Item, Request, Sleep, Stream, as_stream
from joblane.client.connection import AsyncConnection
from joblane.client.credentials import Credential, StaticToken
from joblane.client.errors import JoblaneError
from joblane.client.handle import JobValues
from joblane.client.operations import Operations
from joblane.client.profiles import ConnectionOptions, Endpoint, find_endpoint
from joblane.client.transport import Certificate

P = ParamSpec("P")
T = TypeVar("T")


class AsyncJob(JobValues):
    """A job as it was when it was last read, with the calls that concern it."""

    def __init__(self, client: "AsyncClient", data: JobJson) -> None:
        super().__init__(data)
        self._client = client

    async def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = (await self._client.get(self.id)).data
        return self

    async def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = (await self._client.wait(self.id, timeout_s)).data
        return self

    def logs(self, *, follow: bool = False) -> AsyncGenerator[LogRecord, None]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow)


def _returns(
    method: Callable[Concatenate[Operations[AsyncJob], P], Call[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """Make the method of `AsyncClient` that runs a call."""

    @wraps(method)
    async def run(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = as_stream(method(self._operations, *args, **kwargs))
        async with aclosing(self._run(call)) as items:
            return await anext(items)

    return run


def _yields(
    method: Callable[Concatenate[Operations[AsyncJob], P], Stream[T]],
) -> Callable[Concatenate["AsyncClient", P], AsyncGenerator[T, None]]:
    """Make the method of `AsyncClient` that runs a stream."""

    @wraps(method)
    def run(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return self._run(method(self._operations, *args, **kwargs))

    return run


class AsyncClient:
    """A client of the API for asyncio: the methods of `Client`, to be awaited.

    Methods that yield (`list`, `logs`, `follow`, `requeue`, `restart_failed`) are used with
    `async for`. Tasks may share a client. A cancelled call sends nothing more; the API may have
    acted on a request that was already sent, as with `UnreachableError`.
    """

    def __init__(
        self,
        url: str,
        token: str | Credential | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        credential = StaticToken(token) if token is None or isinstance(token, str) else token
        self._connection = AsyncConnection(url, credential, certificate)
        self._operations = Operations(lambda data: AsyncJob(self, data))

    @classmethod
    def from_env(cls) -> Self:
        """Use the environment or a profile, see `Client.from_env`."""
        return cls.from_endpoint(find_endpoint(ConnectionOptions()))

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint) -> Self:
        """Use the API that `joblane.client.profiles.find_endpoint` has found."""
        return cls(endpoint.url, endpoint.credential, endpoint.certificate)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._connection.close()

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return self._connection.url

    async def _run(self, call: Stream[T]) -> AsyncGenerator[T, None]:
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
                        await asyncio.sleep(step.seconds)
                    case Request():
                        try:
                            answer = await self._connection.send(step)
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
