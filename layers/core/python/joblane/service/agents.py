"""List, show and drain agents."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from joblane.aws.agents import AgentStore
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import Lanes
from joblane.contract.problems import Problem
from joblane.contract.views import AgentDetail, AgentJob, AgentView
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.formats.times import rfc3339
from joblane.job.lease import Heartbeat
from joblane.job.message import Command


@dataclass(frozen=True)
class Agents:
    """Lists, shows and drains agents, for the role platform."""

    agents: AgentStore
    jobs: JobStore
    lanes: Lanes
    now_ms: Callable[[], int]

    def page(self, limit: int, after: str | None) -> tuple[list[AgentView], str | None]:
        """Read a page of agents."""
        rows, following = self.agents.page(limit=limit, after=after)
        now_ms = self.now_ms()
        return [_view(row, now_ms) for row in rows], following

    def one(self, name: str) -> AgentDetail:
        """Read one agent, and whose jobs it runs. Raises Problem 404."""
        row = self._row(name)
        now_ms = self.now_ms()
        return AgentDetail(
            **_view(row, now_ms).model_dump(),
            started_at=rfc3339(row.since_ms),
            jobs=tuple(
                AgentJob(id=head.job_id, tenant=head.tenant, queue=head.queue, state=head.state)
                for head in self.jobs.heads(row.jobs)
            ),
        )

    def drain(self, name: str) -> AgentView:
        """Ask an agent to drain. Raises Problem 404, and 409 when it is not alive."""
        row = self._row(name)
        view = _view(row, self.now_ms())
        if not view.alive or not self.lanes.send_command(name, Command(command="drain")):
            raise Problem(
                HTTPStatus.CONFLICT, f"the agent is gone: last seen at {view.last_seen_at}"
            )
        return view

    def _row(self, name: str) -> Heartbeat:
        row = self.agents.get(name) if re.match(AGENT_NAME_PATTERN, name) else None
        if row is None:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such agent")
        return row


def _view(row: Heartbeat, now_ms: int) -> AgentView:
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
    )
