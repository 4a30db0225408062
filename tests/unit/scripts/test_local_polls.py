"""The local AWS ends long polls that are open when an agent is ended."""

import asyncio
import time
from typing import Any

import pytest

from scripts.local import launcher
from scripts.local.launcher import Polls


def test_open_polls_are_answered_and_those_that_follow_when_the_agent_has_heard(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(launcher, "HEARD_S", 0.3)

    async def receive(_data: dict[str, Any], _url: str) -> object:
        await asyncio.Event().wait()
        return {"Messages": ["lost"]}

    async def main() -> None:
        polls = Polls(receive, 4)
        first, second = (asyncio.ensure_future(polls.receive({}, "url", 20)) for _ in range(2))
        await asyncio.sleep(0.01)
        polls.end()
        assert not any(await asyncio.gather(first, second))
        began = time.monotonic()
        assert not await polls.receive({}, "url", 20)
        assert time.monotonic() - began > 0.25
        gone = asyncio.ensure_future(polls.receive({}, "url", 20))
        await asyncio.sleep(0.01)
        gone.cancel()  # its client
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(main())


def test_a_message_is_handed_on():
    async def receive(data: dict[str, Any], url: str) -> object:
        return data, url

    polls = Polls(receive, 4)
    assert ({"WaitTimeSeconds": 2}, "url") == asyncio.run(polls.receive({}, "url", 2))
