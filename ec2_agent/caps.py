"""How many jobs of each queue may run here: what operators have set, read every 20 s."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import QueueCapped, SettingsNotRead
from ec2_agent.log_event import tell
from ec2_agent.settings import Settings
from joblane.aws.settings import SettingsStore
from joblane.queues import QueueSettings

READ_EVERY_S = 20.0
"""A change is seen within 30 s, also when a read is slow: one request for up to 100 queues, half
a read unit each."""


@dataclass
class Caps:
    """The caps of one agent, by the settings as they were last read.

    An agent that cannot read them keeps to what it knows; one that never could does not start.
    """

    settings: Settings
    store: SettingsStore
    on_change: Callable[[], None]
    """Called when a read has brought something new."""
    _known: dict[str, QueueSettings] = field(default_factory=dict)

    def of(self, queue: str) -> int:
        """Most jobs of a queue that may run here at once."""
        declared = self.settings.descriptor.queues[queue].threads
        return self._known[queue].cap(declared, self.settings.name, self.settings.since_ms)

    async def begin(self) -> None:
        """Read once. Raises what AWS says: a queue may be paused, and nobody would know."""
        self._known = await self._read()
        self._tell({})

    async def keep(self) -> None:
        """Read every `READ_EVERY_S` until cancelled."""
        while True:
            await asyncio.sleep(READ_EVERY_S)
            try:
                known = await self._read()
            except (BotoCoreError, ClientError) as error:
                tell(SettingsNotRead(error))
                continue
            if known != self._known:
                before, self._known = self._known, known
                self._tell(before)
                self.on_change()

    async def _read(self) -> dict[str, QueueSettings]:
        queues = self.settings.descriptor.queues
        return await in_thread(lambda: self.store.get_all(queues), "read settings")

    def _tell(self, before: dict[str, QueueSettings]) -> None:
        for queue, now in self._known.items():
            if now.version and now != before.get(queue):
                tell(QueueCapped(queue, self.of(queue), now.version))
