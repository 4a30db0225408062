"""The agent's lease on its jobs: renewed by a heartbeat, and given up in time when it cannot be.

Others take a job over when the agent's last heartbeat is `Pace.lease_s` old. An agent that is cut
off must therefore have killed its jobs before that, on a clock that nobody sets:

    agent A (cut off at 0)                          agent B
    0      last heartbeat arrives
    10..   heartbeats fail
    240    kills its jobs, reports nothing
                                                    300  lease over: may take over
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import GoodbyeFailed, HeartbeatFailed
from ec2_agent.log_event import tell
from ec2_agent.settings import PACE, Pace, Settings
from joblane.aws.agents import AgentRow, AgentStore


def lease_lost(renewed: float, now: float, pace: Pace = PACE) -> bool:
    """Whether jobs must be killed.

    `renewed` is when the last heartbeat that arrived was *sent*; both are seconds of a clock
    that nobody sets and that goes on while the machine sleeps.
    """
    return now - renewed >= pace.holds_s


@dataclass
class Lease:
    """Beats for one agent until cancelled."""

    settings: Settings
    store: AgentStore
    clock: Callable[[], float]
    """Unix seconds."""
    monotonic: Callable[[], float]
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps."""
    running: Callable[[], Iterable[str]]
    """Ids of the jobs that run now."""
    trouble: Callable[[], str | None]
    """Why the agent takes no work, or what waits to be reported; None while all is well."""
    on_lost: Callable[[], None]
    """Called when the lease can no longer be relied on, with every failing beat."""
    on_renewed: Callable[[float], None]
    """Called with every beat that arrived: up to when jobs may run now, on that clock."""

    def __post_init__(self) -> None:
        self._renewed = self.monotonic()
        self._given_up = False

    @property
    def held(self) -> bool:
        """Whether jobs may run here."""
        return not self._given_up and not self._lost()

    @property
    def until(self) -> float:
        """Up to when jobs may run without another heartbeat, on the clock that nobody sets."""
        return self._renewed + self.settings.pace.holds_s

    async def begin(self) -> None:
        """Beat once. Raises what AWS says: an agent that cannot say so is not alive."""
        await self._beat()

    async def keep(self) -> None:
        """Beat every `Pace.heartbeat_s` until cancelled."""
        while True:
            await asyncio.sleep(self.settings.pace.heartbeat_s)
            # First of all: after a long stop of this process or its machine, others may have
            # taken the jobs over, and a heartbeat that arrives does not bring them back.
            self._check()
            try:
                await self._beat()
            except (BotoCoreError, ClientError) as error:
                tell(HeartbeatFailed(error))
                self._check()
            else:
                self._given_up = self._lost()

    def _lost(self) -> bool:
        return lease_lost(self._renewed, self.monotonic(), self.settings.pace)

    def _check(self) -> None:
        if self._lost():
            self._given_up = True
            self.on_lost()

    async def end(self) -> None:
        """Say goodbye: nothing is held any more."""
        try:
            await in_thread(lambda: self.store.goodbye(self.settings.name), "goodbye")
        except (BotoCoreError, ClientError) as error:
            tell(GoodbyeFailed(error))

    async def _beat(self) -> None:
        sent = self.monotonic()
        jobs = tuple(self.running())
        row = AgentRow(
            name=self.settings.name,
            since_ms=self.settings.since_ms,
            beat_ms=int(self.clock() * 1000),
            threads=self.settings.threads,
            running=len(jobs),
            jobs=jobs,
            queues=tuple(self.settings.descriptor.queues),
            isolation=self.settings.isolation,
            version=self.settings.version,
            trouble=self.trouble(),
            lease_s=self.settings.pace.lease_s,
        )
        await in_thread(lambda: self.store.beat(row), "heartbeat")
        self._renewed = sent
        self.on_renewed(self.until)
