"""A deployment that is simulated: lanes, tables, groups and agents, and what happens to them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ec2_agent.lanes.intake import LONG_POLL_S
from joblane.deployment.names import LANES
from joblane.queue.settings import QueueSettings
from joblane.service.queue.thread_shares import ThreadShares
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State
from scripts.simulation.adapters import SimulatedAgents, SimulatedSettings
from scripts.simulation.agent import Agent
from scripts.simulation.clock import Clock
from scripts.simulation.fleet import Boot, FleetPlan, Group, Supply
from scripts.simulation.job import Job, Usage
from scripts.simulation.lane import Lane
from scripts.simulation.limits import Bucket, Rate
from scripts.simulation.scaling import MINUTE_S, Scaling

if TYPE_CHECKING:
    from ec2_agent.lanes.polling import LaneKey

TABLE_UNITS = 4000
"""Write units a second of a new table on demand."""

PARTITION_UNITS = 1000
"""Write units a second of one partition: the entries of one tenant in the index `by_tenant`."""

PARAMETERS_PER_S = 40
"""SSM GetParameter: the account's requests a second, by default."""
NOTICED_S = 1.0
"""Shorter waits are no more than requests that come at once."""

JOBS_A_UNIT = 30
"""Ids of jobs in a heartbeat of one write unit (`AgentStore.beat`)."""


@dataclass(frozen=True)
class Outage:
    """SQS does not answer."""

    begin: float
    end: float


@dataclass(frozen=True)
class Plan:
    """What is simulated, but for its load."""

    fleets: tuple[FleetPlan, ...] = (FleetPlan(),)
    cluster_threads: Mapping[str, int | None] = field(default_factory=lambda: {"default": None})
    """Every queue, and its limit over all agents."""
    boot: Boot = field(default_factory=Boot)
    supply: Supply = field(default_factory=Supply)
    outages: Sequence[Outage] = ()
    expire_polls: bool = True


class World:
    """See the module."""

    def __init__(self, plan: Plan, seed: int, scaling: Callable[["World"], Scaling]) -> None:
        self.plan = plan
        self.clock = Clock(seed)
        self.usage = Usage()
        self.boot, self.supply = plan.boot, plan.supply
        self.launches = Bucket(plan.supply.launches, plan.supply.launches_per_s)
        self.table, self.by_tenant = Rate(TABLE_UNITS), Rate(PARTITION_UNITS)
        self.agents_table, self.parameters = Rate(TABLE_UNITS), Rate(PARAMETERS_PER_S)
        self.starts, self.launched = Rate(), Rate()
        """Attempts that start, and instances."""
        self.jobs: list[Job] = []
        self.running: Counter[str] = Counter()
        self.most_running: Counter[str] = Counter()
        self.heartbeats: dict[str, Heartbeat] = {}
        self.agents: dict[str, Agent] = {}
        self.left = 0
        """Jobs that have not ended."""
        self.taken_over = self.interruptions = self.deaths = self.cuts = self.refused_leaves = 0
        self._back: dict[Agent, list[tuple[Callable[..., object], tuple[object, ...]]]] = {}
        self.lanes: dict[LaneKey, Lane] = {
            (queue, lane): Lane(
                (queue, lane),
                self.clock,
                self.usage,
                self._sqs_answers,
                LONG_POLL_S,
                plan.expire_polls,
            )
            for queue in plan.cluster_threads
            for lane in LANES
        }
        self.limited = any(plan.cluster_threads.values())
        self.settings = {
            name: QueueSettings(cluster_threads=limit)
            for name, limit in plan.cluster_threads.items()
        }
        self.shares = ThreadShares(SimulatedSettings(self), SimulatedAgents(self))
        self.groups = {fleet.name: Group(self, fleet) for fleet in plan.fleets}
        self.scaling = scaling(self)
        self.scaling.begin()
        if self.limited:
            self.clock.after(MINUTE_S / 2, self._share_out)
        for outage in plan.outages:
            self.clock.at(outage.begin, self._outage_begins)
            self.clock.at(outage.end, self._outage_ends)

    # Jobs.

    def submit(self, job: Job) -> None:
        """Accept a job as soon as its row can be written."""
        now = self.clock.now
        wait = max(self.table.wait(now), self.by_tenant.wait(now))
        if wait >= NOTICED_S:
            self.usage.hold_up("by_tenant of one tenant")
        self.left += 1
        self.jobs.append(job)
        self.clock.after(wait, self._accept, job)

    def _accept(self, job: Job) -> None:
        if not self._sqs_answers():  # the API answers 503, and the client tries again
            self.clock.after(1.0, self._accept, job)
            return
        job.submitted = self.clock.now
        self.usage.write_units += 2
        self.scaling.changed(job, None)
        self.lanes[job.queue, job.lane].send(job)

    def change(self, job: Job, state: State) -> None:
        """Change a job's state."""
        before, job.state = job.state, state
        self.scaling.changed(job, before)

    def runs(self, queue: str, more: int) -> None:
        """Count an attempt that began (1) or ended (-1)."""
        if more > 0:
            self.starts.wait(self.clock.now)
        self.running[queue] += more
        self.most_running[queue] = max(self.most_running[queue], self.running[queue])

    def ended(self) -> None:
        """Count a job that completed."""
        self.left -= 1

    # Agents.

    def beat(self, row: Heartbeat) -> int | None:
        """Write a heartbeat. Returns when the row that it replaces was named surplus."""
        before = self.heartbeats.get(row.name)
        self.heartbeats[row.name] = row
        units = 1 if len(row.jobs) <= JOBS_A_UNIT else 2
        self.usage.write_units += units
        self.agents_table.wait(self.clock.now, units)
        return None if before is None else before.surplus_ms

    def goodbye(self, agent: Agent) -> None:
        """Delete the row of an agent that has drained."""
        self.heartbeats.pop(agent.name, None)

    def instance_ended(self, agent: Agent) -> None:
        """Free the jobs of an instance that has ended, as `joblane.service.fleet.instance_end`."""
        row = self.heartbeats.pop(agent.name, None)
        if row is None:
            return
        for job_id in row.jobs:
            job = self.jobs[int(job_id)]
            if job.state is State.ACTIVE and job.agent == agent.name:
                self.lanes[job.queue, job.lane].send(job)

    def cut(self, agent: Agent) -> None:
        """Cut an agent off from AWS for a while."""
        self.cuts += 1
        agent.cut()
        self._back[agent] = []
        self.clock.after(self.supply.cut_s, self._restore, agent)

    def when_back(self, agent: Agent, do: Callable[..., object], *args: object) -> None:
        """Call `do` when an agent reaches AWS again."""
        self._back[agent].append((do, args))

    def _restore(self, agent: Agent) -> None:
        agent.cut_off = False
        for do, args in self._back.pop(agent):
            do(*args)

    def idle_s(self, fleet: str) -> int | None:
        """After how many seconds without a job an instance of a fleet ends."""
        return self.groups[fleet].plan.idle_s

    def instances_alive(self) -> int:
        """Instances of all groups."""
        return sum(len(group.instances) for group in self.groups.values())

    def rates(self) -> dict[str, Rate]:
        """What is asked for in a second, by name."""
        return {
            "table": self.table,
            "by_tenant": self.by_tenant,
            "agents_table": self.agents_table,
            "parameters": self.parameters,
            "starts": self.starts,
            "launched": self.launched,
        }

    # Limits of queues.

    def _share_out(self) -> None:
        """Share limits out among the live agents, each minute, as the requeue function."""
        self.clock.after(MINUTE_S, self._share_out)
        now_ms = self.clock.now_ms
        sharing = [row for row in self.heartbeats.values() if row.shares_limits(now_ms)]
        self.shares.refresh(self.settings, sharing, now_ms)

    # Outages.

    def _sqs_answers(self) -> bool:
        now = self.clock.now
        return not any(outage.begin <= now < outage.end for outage in self.plan.outages)

    def _outage_begins(self) -> None:
        for agent in self.agents.values():
            agent.lose_messages()

    def _outage_ends(self) -> None:
        for lane in self.lanes.values():
            lane.recovered()
