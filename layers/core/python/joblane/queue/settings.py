"""Queue settings, and the thread limit that follows for one agent.

joblane.toml declares a queue's initial values; a setting overrides them, and null restores them.
`cluster_threads` is not in the file: null is no limit.
"""

from dataclasses import dataclass

from joblane.queue.shares import Shares

READ_EVERY_S = 20
"""Seconds between two reads of the settings by an agent. A change is seen within 30 s, also when a
read is slow: one request for up to 99 queues, half a read unit each, and half a unit for every 4 KB
of tenants' shares."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of one queue, as the table stores them."""

    run_jobs: bool = True
    threads: int | None = None
    cluster_threads: int | None = None
    version: int = 0
    """Number of changes by operators."""
    changed_ms: int | None = None
    changed_by: str | None = None
    """Caller who changed them last."""
    tenant: str | None = None
    """Tenant of that caller."""
    shares: Shares | None = None
    """Shares of `cluster_threads`; None without a limit."""

    def cap(self, declared: int, agent: str, since_ms: int) -> int:
        """Maximum number of the queue's jobs that an agent may run at the same time.

        `declared` is the value of joblane.toml, `since_ms` the start of the agent. An agent that
        runs more already stops none of them.
        """
        if not self.run_jobs:
            return 0
        own = declared if self.threads is None else self.threads
        if self.cluster_threads is None:
            return own
        return min(own, 0 if self.shares is None else self.shares.of(agent, since_ms))


UNSET = QueueSettings()
"""Settings of a queue that was never changed."""
