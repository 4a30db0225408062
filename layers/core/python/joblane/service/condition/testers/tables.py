"""Testers that read Joblane's own tables: `quota`, `capacity` and `app`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from joblane.aws.condition.directory import AppStore
from joblane.aws.fleet.agents import AgentStore
from joblane.service.condition.testers import BATCH, BadParameters, Finding, Tester


@dataclass(frozen=True)
class Slots:
    """Counts free slots of live agents, from heartbeats at most ten seconds old."""

    agents: AgentStore
    clock: Callable[[], float]

    def count_free(self, queues: Collection[str]) -> Finding:
        """Count the jobs that agents serving one of `queues` could start now."""
        now_ms = int(self.clock() * 1000)
        serving = [
            row
            for row in self.agents.read_all()
            if row.state(now_ms) == "ready" and not set(queues).isdisjoint(row.queues)
        ]
        free = sum(max(0, row.threads - row.running) for row in serving)
        return Finding(free, f"{free} free slot(s) on {len(serving)} live agent(s)")


@dataclass(frozen=True)
class SlotsTester(Tester):
    """Tests `quota` and `capacity`: allows as many jobs as there are free slots.

    `quota` counts slots for the queues that a tenant may use, `capacity` for those that a fleet
    serves. Agents started by hand for the same queues count as well.
    """

    slots: Slots
    what: str
    queues_of: Mapping[str, Collection[str]]

    def test(self, parameter: str) -> Finding:
        """Count the free slots for a tenant or a fleet."""
        queues = self.queues_of.get(parameter)
        if not queues:
            # Not which there are: the reason is shown to the job's tenant, and they are others'.
            raise BadParameters(f"there is no {self.what} of this name with a queue")
        return self.slots.count_free(queues)


@dataclass(frozen=True)
class AppTester(Tester):
    """Blocks while an application is declared down, for its tenant or for all tenants."""

    apps: AppStore
    clock: Callable[[], float]

    def test(self, parameter: str) -> Finding:
        """Read the declarations of the tenant's operators and of the role platform."""
        for app in dict.fromkeys((parameter, parameter.rpartition("/")[2])):
            down = self.apps.down(app, int(self.clock()))
            if down is not None:
                return Finding(0, f"declared down: {down.why}")
        return Finding(BATCH, "not declared down; trying")
