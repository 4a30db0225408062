"""Both clients behind the interface of `Client`, so that one test runs with each of them."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from joblane import AsyncClient, AsyncJobRef, Client
from joblane.client.files.calls import Files
from joblane.client.groups import Groups
from joblane.client.schedules import Schedules

Connect = Callable[..., AbstractContextManager[Any]]
"""Makes a client from the arguments of `Client`, and closes it."""


_HANDLES = (AsyncJobRef, Files, Groups, Schedules)


class Blocking:
    """An `AsyncClient` or an `AsyncJobRef` whose methods block."""

    def __init__(
        self,
        inner: AsyncClient | AsyncJobRef | Files[Any] | Groups[Any, Any] | Schedules[Any],
        runner: asyncio.Runner,
    ) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        return self._value(getattr(self._inner, name))

    def _value(self, value: Any) -> Any:
        if inspect.ismethod(value):
            return lambda *args, **kwargs: self._value(value(*args, **kwargs))
        if inspect.iscoroutine(value):
            return self._value(self._runner.run(value))
        if inspect.isasyncgen(value):
            return self._items(value)
        return Blocking(value, self._runner) if isinstance(value, _HANDLES) else value

    def _items(self, items: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(items)

        try:
            while True:
                try:
                    yield self._value(self._runner.run(following()))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(items.aclose())


@contextmanager
def blocking(*args: Any) -> Iterator[Any]:
    """Make an `AsyncClient` whose methods block."""
    with asyncio.Runner() as runner:
        client = AsyncClient(*args)
        try:
            yield Blocking(client, runner)
        finally:
            runner.run(client.close())


CONNECT: dict[str, Connect] = {"Client": Client, "AsyncClient": blocking}
