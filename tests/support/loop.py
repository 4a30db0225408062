"""An event loop on a simulated clock: timers take no time, and blocking calls need no threads.

A blocking call runs as a callback of its own, outside every task. So the loop may be run again
in the middle of a call, and what else is due goes on then, as it would beside a thread.
"""

import asyncio
import heapq
import inspect
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

NO_DELAY = (0.0, 0.0)


class Callback(asyncio.TimerHandle):
    """A callback that is due at a time; unlike asyncio's, its exceptions are raised."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: Any,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._call = partial((context or copy_context()).run, callback, *args)

    def run(self) -> None:
        """Call it, unless it was cancelled."""
        if not self.cancelled():
            self._call()


class SimLoop:
    """Runs the tasks of one simulated process: as much of a loop as tasks and futures need."""

    def __init__(
        self,
        clock: Callable[[], float],
        delays: Callable[[], tuple[float, float]] = lambda: NO_DELAY,
    ) -> None:
        """`clock` gives seconds; `delays` how long the next call takes, before and after."""
        self._asyncio: Any = self  # asyncio's types name a class of 40 methods more
        self._clock = clock
        self._delays = delays
        self._ready: deque[Callback] = deque()
        self._timers: list[Callback] = []
        self._coroutines: set[Coroutine[Any, Any, Any]] = set()
        """Of the tasks that have not ended."""
        self._dead = False
        self.errors: list[BaseException] = []
        """Exceptions that no task has handled."""

    @property
    def due(self) -> float:
        """When the next timer is due; infinite if there is none, or the process is dead."""
        while self._timers and self._timers[0].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0].when() if self._timers and not self._dead else float("inf")

    def run(self) -> None:
        """Run everything that is due now. May be called again in the middle of a call."""
        outer = events._get_running_loop()  # asyncio's interface for loops
        events._set_running_loop(self._asyncio)
        try:
            while not self._dead:
                while self.due <= self._clock():
                    self._ready.append(heapq.heappop(self._timers))
                if not self._ready:
                    break
                self._ready.popleft().run()
        finally:
            events._set_running_loop(outer)
        if self.errors:
            raise self.errors.pop()

    def kill(self) -> None:
        """Run nothing any more, as after SIGKILL."""
        self._dead = True
        self._ready.clear()
        self._timers.clear()
        for coroutine in self._coroutines:
            if inspect.getcoroutinestate(coroutine) != inspect.CORO_RUNNING:
                coroutine.close()
        self._coroutines.clear()

    def time(self) -> float:
        """See asyncio."""
        return self._clock()

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_closed(self) -> bool:
        """See asyncio."""
        return self._dead

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Callback:
        """See asyncio."""
        made = Callback(self._clock(), callback, args, self._asyncio, context)
        if not self._dead:
            self._ready.append(made)
        return made

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        """See asyncio."""
        made = Callback(when, callback, args, self._asyncio, context)
        if not self._dead:
            heapq.heappush(self._timers, made)
        return made

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        """See asyncio."""
        return self.call_at(self._clock() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """See asyncio: `due` drops it."""

    def create_future(self) -> "asyncio.Future[Any]":
        """See asyncio."""
        return asyncio.Future(loop=self._asyncio)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, **_: Any
    ) -> "asyncio.Task[T]":
        """See asyncio."""
        task = asyncio.Task(coro, loop=self._asyncio, name=name)
        self._coroutines.add(coro)
        task.add_done_callback(lambda _: self._coroutines.discard(coro))
        return task

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Make a call in this thread, as a callback, after and before its delays."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        before_s, after_s = self._delays()

        def settle(set_state: Callable[[Any], None], value: object) -> None:
            if not future.cancelled():
                set_state(value)

        def make() -> None:
            try:
                result: Any = func(*args)
            except Exception as error:  # noqa: BLE001 - raised by the future
                self._call_in(after_s, settle, future.set_exception, error)
            else:
                self._call_in(after_s, settle, future.set_result, result)

        self._call_in(before_s, make)
        return future

    def _call_in(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        if delay_s:
            self.call_later(delay_s, callback, *args)
        else:
            self.call_soon(callback, *args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember what no task has handled; tasks of a dead process never end."""
        if not self._dead and "exception" in context:
            self.errors.append(context["exception"])
