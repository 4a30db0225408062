"""Credentials of direct calls: always valid ones, or none; nobody waits for them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.credentials import Credentials, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError

from ec2_agent.aws_calls.credentials import LOOK_S, CurrentKeys
from ec2_agent.aws_calls.sign import Keys
from tests.support import inline_calls

BEGAN = datetime(2027, 1, 15, 8, 0, tzinfo=UTC)
FOR_S = 6 * 3600
"""For how long an instance's credentials are valid."""


MANDATORY_S = 600
"""Before they expire, from which on botocore raises when it cannot renew them."""


class Metadata:
    """An instance's metadata service, with credentials that botocore renews."""

    def __init__(self, for_s: float = FOR_S) -> None:
        self.now = 0.0
        self.away = False
        self.asked = 0
        self._for_s = for_s
        first = self._fetch()
        self.source = RefreshableCredentials(
            first["access_key"],
            first["secret_key"],
            first["token"],
            self._time() + timedelta(seconds=for_s),
            self._fetch,
            "test",
            time_fetcher=self._time,
        )
        self.asked = 0

    def _time(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now)

    def _fetch(self) -> dict[str, str]:
        self.asked += 1
        if self.away:
            raise CredentialRetrievalError(provider="test", error_msg="no route to host")
        expires = self._time() + timedelta(seconds=self._for_s)
        return {
            "access_key": "ASIA",
            "secret_key": "secret",
            "token": str(self.expires(self.now)),
            "expiry_time": expires.isoformat(),
        }

    def expires(self, fetched: float) -> float:
        """When the credentials of a moment expire."""
        return fetched + self._for_s


async def settle() -> None:
    """Let a look that has begun end."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_static_credentials_are_looked_at_once():
    asked = 0

    class Static:
        def get_frozen_credentials(self) -> Any:
            nonlocal asked
            asked += 1
            return Credentials("AKIA", "secret").get_frozen_credentials()

    async def work() -> None:
        now = 0.0
        keys = CurrentKeys(Static(), lambda: now)
        assert keys.get() is None, "nobody waits"
        assert Keys("AKIA", "secret", None) == await keys.wait_first()
        looks = asked
        for now in (1.0, 1e6):  # noqa: B007 - the clock reads it
            assert Keys("AKIA", "secret", None) == keys.get()
            await settle()
        assert looks == asked

    inline_calls.run(work())


def test_no_expired_credentials_are_ever_used():
    """A day of an instance, looked at every second."""

    async def work() -> None:
        service = Metadata()
        keys = CurrentKeys(service.source, lambda: service.now)
        await keys.wait_first()
        for second in range(1, 86_400, 7):
            service.now = second
            found = keys.get()
            await settle()
            assert found is not None
            assert found.token is not None
            assert second < float(found.token), "expired"
        assert 86_400 // FOR_S <= service.asked <= 86_400 // FOR_S + 1

    inline_calls.run(work())


@pytest.mark.parametrize("away_from", [0.0, FOR_S / 2, FOR_S - 16 * 60])
def test_while_they_cannot_be_renewed_the_old_ones_are_used_as_long_as_botocore_would(
    away_from: float,
):
    async def work() -> None:
        service = Metadata()
        keys = CurrentKeys(service.source, lambda: service.now)
        await keys.wait_first()
        last = -1.0
        for second in range(1, FOR_S + 3600, 5):
            service.now = second
            service.away = second >= away_from
            found = keys.get()
            await settle()
            if found is not None:
                assert found.token is not None
                assert second < float(found.token)
                last = second
        assert FOR_S - MANDATORY_S - LOOK_S <= last < FOR_S
        service.away = False
        service.now += LOOK_S
        keys.get()
        await settle()
        assert keys.get() is not None, "they are found again"

    inline_calls.run(work())


def none() -> None:
    return None


def raising() -> None:
    raise CredentialRetrievalError(provider="test", error_msg="no route to host")


@pytest.mark.parametrize("frozen", [raising, lambda: Credentials("", "").get_frozen_credentials])
def test_without_credentials_there_are_none_and_looks_have_a_pause(frozen: Callable[[], Any]):
    asked = 0

    class Empty:
        def get_frozen_credentials(self) -> Any:
            nonlocal asked
            asked += 1
            frozen()
            raise AttributeError

    async def work() -> None:
        now = 0.0
        keys = CurrentKeys(Empty(), lambda: now)
        for second in range(121):
            now = float(second)
            assert await keys.wait_first() is None
        assert 121 // LOOK_S + 1 == asked

    inline_calls.run(work())


def test_credentials_that_lack_a_part_are_none():
    async def work() -> None:
        for source in (Credentials(None, "x"), Credentials("x", None)):  # type: ignore[arg-type]
            assert await CurrentKeys(source, lambda: 0).wait_first() is None

    inline_calls.run(work())


def test_all_who_ask_at_first_wait_for_one_look():
    async def work() -> None:
        service = Metadata()
        keys = CurrentKeys(service.source, lambda: service.now)
        found = await asyncio.gather(*(keys.wait_first() for _ in range(10)))
        assert 10 == len(found)
        assert None not in found

    asyncio.run(work())
