"""Testers that read Joblane's own tables: `quota`, `capacity` and `app`."""

from collections.abc import Callable, Collection, Iterator, Mapping

from joblane.aws.agents import AgentStore
from joblane.aws.directory import AppStore
from joblane.job.lease import Heartbeat
from joblane.service.testers import BATCH, BadParameters, Finding, Tester

_PAGE = 100


class Slots:
    """Counts free slots of live agents, from heartbeats at most ten seconds old."""

    def __init__(self, agents: AgentStore, clock: Callable[[], float]) -> None:
        self._agents = agents
        self._clock = clock

    def free(self, queues: Collection[str]) -> Finding:
        """Count the jobs that live agents serving one of `queues` could start now."""
        now_ms = int(self._clock() * 1000)
        serving = [
            row
            for row in self._rows()
            if row.alive(now_ms) and not set(queues).isdisjoint(row.queues)
        ]
        free = sum(max(0, row.threads - row.running) for row in serving)
        return Finding(free, f"{free} free slot(s) on {len(serving)} live agent(s)")

    def _rows(self) -> Iterator[Heartbeat]:
        after: str | None = None
        while True:
            rows, after = self._agents.page(limit=_PAGE, after=after)
            yield from rows
            if after is None:
                return


class SlotsTester(Tester):
    """Tests `quota` and `capacity`: allows as many jobs as there are free slots.

    `quota` counts slots for the queues that a tenant may use, `capacity` for those that a fleet
    serves. Agents started by hand for the same queues count as well.
    """

    def __init__(self, slots: Slots, what: str, queues_of: Mapping[str, Collection[str]]) -> None:
        self._slots = slots
        self._what = what
        self._queues_of = queues_of

    def test(self, parameter: str) -> Finding:
        """Count the free slots for a tenant or a fleet."""
        queues = self._queues_of.get(parameter)
        if not queues:
            known = ", ".join(self._queues_of) or "none"
            raise BadParameters(f"there is no such {self._what} with a queue; there are: {known}")
        return self._slots.free(queues)


class AppTester(Tester):
    """Blocks while an operator has declared an application down."""

    def __init__(self, apps: AppStore, clock: Callable[[], float]) -> None:
        self._apps = apps
        self._clock = clock

    def test(self, parameter: str) -> Finding:
        """Read the declaration."""
        down = self._apps.down(parameter, int(self._clock()))
        if down is not None:
            return Finding(0, f"declared down: {down.why}")
        return Finding(BATCH, "not declared down; trying")
