"""The local AWS ends long polls that are open when an agent is ended."""

import asyncio
from typing import Any

import pytest

from scripts.local.launcher import Polls


def test_open_polls_are_answered_and_those_that_follow_are_short():
    waits = []

    async def receive(data: dict[str, Any], _url: str) -> object:
        waits.append(data["WaitTimeSeconds"])
        await asyncio.Event().wait()
        return {"Messages": ["lost"]}

    async def main() -> None:
        polls = Polls(receive, 4)
        first, second = (asyncio.ensure_future(polls.receive({}, "url", 20)) for _ in range(2))
        await asyncio.sleep(0.01)
        polls.end()
        assert not any(await asyncio.gather(first, second))
        late = asyncio.ensure_future(polls.receive({}, "url", 20))
        await asyncio.sleep(0.01)
        assert [4, 4, 0] == waits
        late.cancel()  # its client is gone
        with pytest.raises(asyncio.CancelledError):
            await late

    asyncio.run(main())


def test_a_message_is_handed_on():
    async def receive(data: dict[str, Any], url: str) -> object:
        return data, url

    polls = Polls(receive, 4)
    assert ({"WaitTimeSeconds": 2}, "url") == asyncio.run(polls.receive({}, "url", 2))
