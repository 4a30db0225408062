"""List and show agents, and send them commands."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import Lanes
from joblane.contract.agents import AgentDetail, AgentJob, AgentView, DiskView, StatePoolView
from joblane.contract.problems import Conflict, NotFound
from joblane.deployment.log_level import LogLevel
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.formats.times import rfc3339
from joblane.job.message import Command
from joblane.state.lease import Heartbeat, HostDisk
from joblane.target.facts import Facts


@dataclass(frozen=True)
class Agents:
    """Lists and shows agents, and sends them commands, for the role platform."""

    agents: AgentStore
    facts: FactStore
    jobs: JobStore
    lanes: Lanes
    now_ms: Callable[[], int]

    def page(
        self, limit: int, after: str | None, facts: Collection[str] = ()
    ) -> tuple[list[AgentView], str | None]:
        """Read a page of agents, with these facts of each."""
        rows, following = self.agents.page(limit=limit, after=after)
        now_ms = self.now_ms()
        known = self.facts.many([row.name for row in rows], now_ms // 1000) if facts else {}
        found = []
        for row in rows:
            own = known.get(row.name, {})
            chosen = {name: own[name] for name in facts if name in own}
            found.append(_view(row, now_ms, chosen))
        return found, following

    def one(self, name: str) -> AgentDetail:
        """Read one agent, and whose jobs it runs. Raises NotFound."""
        row = self._row(name)
        now_ms = self.now_ms()
        return AgentDetail(
            **_view(row, now_ms, self.facts.get(name, now_ms // 1000)).model_dump(),
            started_at=rfc3339(row.since_ms),
            state_pool=row.state_pool and StatePoolView(**row.state_pool._asdict()),
            jobs=tuple(
                AgentJob(id=head.job_id, tenant=head.tenant, queue=head.queue, state=head.state)
                for head in self.jobs.heads([*dict.fromkeys(row.jobs)])
            ),
        )

    def ask(self, name: str, command: Literal["cordon", "drain", "uncordon"]) -> AgentView:
        """Send an agent a command. Raises NotFound, and Conflict when it is not alive."""
        return self._send(name, Command(command=command))

    def set_log_level(self, name: str, level: LogLevel, until_ms: int) -> AgentView:
        """Have an agent write its log from a level on until a time. Raises as `ask`."""
        return self._send(name, Command(command="log-level", level=level, until_ms=until_ms))

    def _send(self, name: str, command: Command) -> AgentView:
        row = self._row(name)
        view = _view(row, self.now_ms(), {})
        if not view.alive or not self.lanes.send_command(name, command):
            raise Conflict(f"the agent is gone: last seen at {view.last_seen_at}")
        return view

    def _row(self, name: str) -> Heartbeat:
        row = self.agents.get(name) if re.match(AGENT_NAME_PATTERN, name) else None
        if row is None:
            raise NotFound("there is no such agent")
        return row


def _view(row: Heartbeat, now_ms: int, facts: Facts) -> AgentView:
    return AgentView(
        name=row.name,
        alive=row.alive(now_ms),
        last_seen_at=rfc3339(row.beat_ms),
        threads=row.threads,
        running=row.running,
        queues=row.queues,
        isolation=row.isolation,
        version=row.version,
        trouble=row.trouble,
        lacks=row.lacks,
        memory_mb=row.memory_mb,
        cores=row.cores,
        disk=_disk_view(row.disk),
        work_disk=_disk_view(row.work_disk),
        load=None if row.host is None else row.host.load,
        free_memory_mb=None if row.host is None else row.host.free_memory_mb,
        state=row.state(now_ms),
        labels=dict(row.labels),
        facts=facts,
    )


def _disk_view(disk: HostDisk | None) -> DiskView | None:
    return None if disk is None else DiskView(**disk._asdict())
