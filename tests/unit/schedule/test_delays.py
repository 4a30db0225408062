"""Delays of messages count from when they are sent, not from when the work began."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

from joblane.aws.schedule.due_queue import DueMessage
from joblane.schedule.record import Schedule
from joblane.service.schedule.due_sweep import DueSweep
from joblane.service.schedule.starts import Started
from tests.unit.schedule.world import START_MS, World, schedule


class Slow:
    """A table whose page takes 5 s, and a queue that notes when messages come."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.come_ms = list[int]()

    def due_page(
        self, number: int, now_ms: int, *, limit: int, after: int | None
    ) -> tuple[list[Schedule], int | None]:
        """Return one schedule of the first shard in each of three pages."""
        if number:
            return [], None
        self.now_ms += 5_000
        page = (after or 0) + 1
        return [replace(schedule(every_s=60), name=f"s{page}")], page if page < 3 else None

    def send(self, messages: Iterable[tuple[DueMessage, int]]) -> int:
        """Note when the messages come."""
        self.come_ms += [self.now_ms + delay_s * 1000 for _, delay_s in messages]
        return 0


def test_what_requeue_sends_late_comes_on_its_second() -> None:
    slow = Slow()
    port = cast("Any", slow)
    sweep = DueSweep(port, port, lambda: slow.now_ms, pool=lambda _n: ThreadPoolExecutor(1))
    assert 3 == sweep.run(lambda: 60.0)
    due_ms = schedule(every_s=60).due_ms
    assert due_ms == START_MS + 40_000
    assert [due_ms] * 3 == slow.come_ms


def test_the_next_message_comes_on_its_second_although_a_start_takes_long() -> None:
    world = World(schedule(every_s=60))
    start: Callable[..., Started] = world.start

    def slowly(*given: Any) -> Started:
        world.now += 20_000
        return start(*given)

    world.start = cast("Any", slowly)  # type: ignore[method-assign]
    row = world.row
    assert row is not None
    assert row.due_ms is not None
    world.run(row.due_ms + 20_000)
    assert [row.due_ms + 60_000] == [at_ms for at_ms, *_ in world.messages]
