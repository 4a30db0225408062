"""An idle agent gives memory back, once after each period of work."""

import asyncio

import pytest

from ec2_agent.host import memory
from tests.support import virtual_time


def test_memory_is_given_back_once_after_each_period_of_work(monkeypatch: pytest.MonkeyPatch):
    said: list[tuple[str, float]] = []
    works_until = [(0.0, 22.0), (100.0, 103.0), (200.0, 204.0)]

    async def work() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(memory, "trim", lambda: said.append(("trimmed", loop.time())))

        def busy() -> bool:
            return any(begin <= loop.time() <= end for begin, end in works_until)

        def release() -> None:
            loop.call_soon(lambda: said.append(("released", loop.time())))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await memory.keep_small(busy, release)

    virtual_time.run(work())
    # The third check is the first of an idle agent; that of second 105 finds one, 100 a busy one.
    assert said == [(what, at) for at in (30.0, 110.0, 210.0) for what in ("released", "trimmed")]
