"""The agent's lease on its jobs: renewed by heartbeats, and given up before it expires.

Other agents take a job over when its agent's last heartbeat is `Pace.lease_s` old. An agent that
cannot reach AWS must therefore have killed its jobs before that, by the boot clock:

    agent A (cut off at 0)                          agent B
    0      last heartbeat arrives
    10..   heartbeats fail
    240    kills its jobs, reports nothing
                                                    300  lease over: may take over
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from ec2_agent.presence.roster import Roster
from ec2_agent.presence.standing import Standing
from ec2_agent.presence.usage import UsageReader
from ec2_agent.settings import PACE, AgentSettings, LeaseTimes
from joblane import __version__
from joblane.aws.fleet.agents import AgentStore
from joblane.state.lease import Heartbeat, HostDisk, HostLoad, StatePool, bound_progress


def lease_lost(renewed: float, now: float, pace: LeaseTimes = PACE) -> bool:
    """Whether jobs must be killed.

    `renewed` is when the last successful heartbeat was *sent*; both are seconds of the boot clock.
    """
    return now - renewed >= pace.holds_s


class Load(NamedTuple):
    """What an agent has in use, for its heartbeat."""

    taken: Mapping[str, int] = {}
    """Slots in use by queue (`Heartbeat.taken`)."""
    left: int = 0
    """How many more jobs the agent would take now (`Heartbeat.left`)."""
    trouble: str | None = None
    """Why the agent takes no jobs, or which outcomes wait; None if nothing is wrong."""
    lacks: tuple[str, ...] = ()
    """What no job can have here (`Heartbeat.lacks`)."""
    memory_mb: int | None = None
    """The most memory that one job may have here (`Heartbeat.memory_mb`)."""
    cores: int | None = None
    """Cores that jobs may name (`Heartbeat.cores`)."""
    disk: HostDisk | None = None
    """The disk with the agent's files (`Heartbeat.disk`)."""
    work_disk: HostDisk | None = None
    """That with work directories, if it is another one (`Heartbeat.work_disk`)."""
    host: HostLoad | None = None
    """How busy the host is (`Heartbeat.host`)."""
    state_pool: StatePool | None = None
    """Connections to the state service (`Heartbeat.state_pool`)."""


@dataclass
class Lease:
    """The lease of one agent."""

    settings: AgentSettings
    store: AgentStore
    clock: Callable[[], float]
    """Unix seconds."""
    boottime: Callable[[], float]
    """Seconds of the boot clock, which is never set and counts while the machine sleeps."""
    roster: Roster
    """The agent's jobs: they are killed when the lease is lost, and renewed with it."""
    standing: Standing
    """Whether it takes new jobs."""
    load: Callable[[], Load] = Load

    def __post_init__(self) -> None:
        self._renewed = self.boottime()
        self._given_up = False
        self._writing = asyncio.Lock()
        self._usage = UsageReader(self.boottime)
        self._ended = False
        self.surplus_ms: int | None = None
        """When the scaler named this agent surplus, as of the last heartbeat; None: it did not."""
        self._forgotten_ms: int | None = None
        """The time of a naming that is over: its group keeps the instance."""

    @property
    def held(self) -> bool:
        """Whether jobs may run here."""
        return not self._given_up and not self._lost()

    @property
    def until(self) -> float:
        """Up to when jobs may run without another heartbeat, in seconds of the boot clock."""
        return self._renewed + self.settings.pace.holds_s

    async def announce(self) -> None:
        """Send a heartbeat now: the first, without which the agent is not listed, or one more.

        Returns when it is written. Raises AWS's errors.
        """
        await self._beat()

    async def keep(self) -> None:
        """Send a heartbeat every `Pace.heartbeat_s`, and at news of standing, until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.standing.news.wait(), self.settings.pace.heartbeat_s)
            self.standing.news.clear()
            # First: after a long stop of this process or its machine, other agents may have
            # taken the jobs over, and a successful heartbeat does not bring them back.
            self._check()
            was_held = self.held
            try:
                await self._beat()
            except AWS_ERRORS as error:
                events.heartbeat_failed(error)
                self._check()
            else:
                self._given_up = self._lost()
            if self.held and not was_held:
                self.standing.on_change()  # jobs are taken again

    def _lost(self) -> bool:
        return lease_lost(self._renewed, self.boottime(), self.settings.pace)

    def _check(self) -> None:
        if self._lost():
            self._given_up = True
            self.roster.abandon_all()

    def forget_surplus(self) -> None:
        """Have the next heartbeat say that this agent stays, until it is named again."""
        self._forgotten_ms, self.surplus_ms = self.surplus_ms, None
        self.standing.news.set()

    async def end(self) -> None:
        """Give up the lease: this agent has no jobs any more."""
        async with self._writing:  # a heartbeat under way would write the row again
            self._ended = True
            try:
                await in_thread(lambda: self.store.delete(self.settings.name), "goodbye")
            except AWS_ERRORS as error:
                events.goodbye_failed(error)

    async def _beat(self) -> None:
        async with self._writing:
            if not self._ended:
                await self._write()

    async def _write(self) -> None:
        sent = self.boottime()
        roster, load = self.roster, self.load()
        of_jobs = roster.tenants()
        # Those of one tenant in a row, which takes the least room, and the unknown ones last.
        jobs = sorted(roster.job_ids(), key=lambda job: (job not in of_jobs, of_jobs.get(job, "")))
        beat_ms = int(self.clock() * 1000)
        row = Heartbeat(
            name=self.settings.name,
            since_ms=self.settings.since_ms,
            beat_ms=beat_ms,
            threads=self.settings.threads,
            running=sum(load.taken.values()),
            jobs=tuple(jobs),
            tenants=tuple(of_jobs[job] for job in jobs if job in of_jobs),
            queues=tuple(self.settings.descriptor.queues),
            isolation=self.settings.isolation,
            version=__version__,
            trouble=load.trouble,
            lease_s=self.settings.pace.lease_s,
            progress=bound_progress(roster.progress()),
            labels=self.settings.labels,
            mode=self.standing.mode,
            uncordoned_ms=self.standing.uncordoned_ms(beat_ms),
            left=load.left,
            taken=load.taken,
            surplus_ms=self.surplus_ms,
            lacks=load.lacks,
            memory_mb=load.memory_mb,
            cores=load.cores,
            disk=load.disk,
            work_disk=load.work_disk,
            host=load.host,
            state_pool=load.state_pool,
        )
        running = roster.processes()
        named_ms = await in_thread(
            lambda: self.store.beat(replace(row, stats=self._usage.read(running))), "heartbeat"
        )
        self._renewed = sent
        events.heartbeat_written(len(jobs))
        # The row that a forgetting heartbeat replaces has the name that is forgotten.
        if self.surplus_ms is None and named_ms is not None and named_ms != self._forgotten_ms:
            self.surplus_ms = named_ms
            events.named_surplus()
        self.standing.announced(row)
        self.roster.renew_all(self.until)
