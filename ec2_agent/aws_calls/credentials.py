"""Credentials for requests that are signed here: botocore's own, looked at in a thread."""

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ec2_agent.aws_calls.sign import Keys
from ec2_agent.calls import in_thread

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

LOOK_S = 30.0
"""Between two looks: botocore renews credentials 15 minutes before they expire."""

GOOD_S = 120
"""Credentials that expire sooner are not used."""

_USED_S = 90.0
"""For how long after a look its credentials are used: they expire later."""


class CredentialSource(Protocol):
    """What is needed of botocore's `Credentials`."""

    def get_frozen_credentials(self) -> "ReadOnlyCredentials":
        """Return what is valid now; may renew it, which takes seconds."""


@runtime_checkable
class Expiring(CredentialSource, Protocol):
    """Credentials that expire."""

    def refresh_needed(self, refresh_in: int) -> bool:
        """Whether they expire within so many seconds."""


class CurrentKeys:
    """The keys that are valid now, without ever blocking the event loop."""

    def __init__(self, source: CredentialSource, clock: Callable[[], float]) -> None:
        """`clock` gives seconds, and counts on while the machine sleeps."""
        self._source = source
        self._clock = clock
        self._keys: Keys | None = None
        self._until = 0.0
        """When the keys are used no longer."""
        self._looked_at = -LOOK_S
        self._look: asyncio.Task[None] | None = None

    def get(self) -> Keys | None:
        """The keys; None while there are none that are certain to be valid."""
        now = self._clock()
        if now < self._until == math.inf:
            return self._keys
        if self._look is None and now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look = asyncio.create_task(self._renew())
        return self._keys if now < self._until else None

    async def wait_first(self) -> Keys | None:
        """The keys, after the look that is under way."""
        keys = self.get()
        if keys is None and self._look is not None:
            await asyncio.wait({self._look})
            keys = self.get()
        return keys

    async def _renew(self) -> None:
        """Take keys that are valid for GOOD_S from before this look.

            this thread                     another thread
            more than GOOD_S left (of 1)
                                            renews: 2, which expires later
            takes 2

        In this order: asked after they were taken, the time that is left might be that of 2, and
        the keys taken those of 1.
        """
        try:
            began = self._clock()
            found = await in_thread(self._valid, "credentials")
        except Exception:  # noqa: BLE001 - providers raise anything; botocore's own calls report it
            found = None
        finally:
            self._look = None
        if found is not None:
            self._keys, self._until = (
                found,
                began + (_USED_S if isinstance(self._source, Expiring) else math.inf),
            )

    def _valid(self) -> Keys | None:
        # Those that expire, when they are near it, are renewed by this.
        self._source.get_frozen_credentials()
        if isinstance(self._source, Expiring) and self._source.refresh_needed(GOOD_S):
            return None
        frozen = self._source.get_frozen_credentials()
        if frozen.access_key is None or frozen.secret_key is None:
            return None
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)
