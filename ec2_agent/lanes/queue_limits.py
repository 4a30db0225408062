"""Limits of running jobs on this agent, by queue and by tenant, read every 20 s.

Those of queues are operators' settings, those of tenants this agent's shares of joblane.toml's.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from ec2_agent.settings import AgentSettings
from joblane.aws.queue.settings import SettingsStore
from joblane.queue.settings import READ_EVERY_S, QueueSettings
from joblane.queue.tenant_shares import Allowance, TenantShares


@dataclass
class QueueLimits:
    """The limits of one agent, by the settings that were last read successfully.

    An agent that has never read them does not start.
    """

    settings: AgentSettings
    store: SettingsStore
    on_change: Callable[[], None]
    """Called when the settings have changed."""
    since_ms: Callable[[int], int] = lambda started_ms: started_ms
    """Gives from when an agent counts that started then: later if it was cordoned (`Standing`)."""
    read_every_s: float = READ_EVERY_S
    _known: dict[str, QueueSettings] = field(default_factory=dict)
    _tenants: TenantShares = TenantShares()  # noqa: RUF009 - frozen

    def of(self, queue: str) -> int:
        """Most jobs of a queue that may run on this agent at once."""
        declared = self.settings.descriptor.queues[queue].threads
        since_ms = self.since_ms(self.settings.since_ms)
        return self._known[queue].cap(declared, self.settings.name, since_ms)

    def of_tenant(self, tenant: str) -> Allowance:
        """Most jobs of a tenant that may run on this agent at once."""
        own = self.settings
        limit = own.descriptor.limits.of(tenant).jobs_running
        return self._tenants.of(tenant, limit, own.name, self.since_ms(own.since_ms))

    async def begin(self) -> None:
        """Read once. Raises AWS's errors: a queue may be paused."""
        self._known, self._tenants = await self._read()
        self._log_changes({})

    async def keep(self) -> None:
        """Read every `read_every_s` until cancelled."""
        while True:
            await asyncio.sleep(self.read_every_s)
            try:
                known, tenants = await self._read()
            except AWS_ERRORS as error:
                events.settings_not_read(error)
                continue
            if (known, tenants) != (self._known, self._tenants):
                before, self._known, self._tenants = self._known, known, tenants
                self._log_changes(before)
                self.on_change()

    async def _read(self) -> tuple[dict[str, QueueSettings], TenantShares]:
        queues = self.settings.descriptor.queues
        return await in_thread(lambda: self.store.get_for_agent(queues), "read settings")

    def _log_changes(self, before: dict[str, QueueSettings]) -> None:
        for queue, now in self._known.items():
            if now.version and now != before.get(queue):
                events.queue_limit_changed(queue, self.of(queue), now.version)
