"""Free the jobs of an agent whose EC2 instance has ended, and delete its facts and its inbox.

Without this they are free when the agent's lease ends, up to five minutes later. The agent's row
is deleted when all are free, so a repetition after a crash at any point does what is left:

    this service             agents table          lane               another agent
    end the lease  ------->  beat 0
    send its messages  --------------------------> message  ------->  claim refused: active,
                                                                      the holder's lease is over:
                                                                      takes over
    (again, if it crashed)                         message  ------->  given back: runs here now
    delete the row  ------>  gone
    delete the facts  ---->  gone
    delete the inbox

Jobs that only this agent may run fail at once. Those whose messages are in its inbox fail when it
has not replied in time (`joblane.service.target.assigned`).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.fleet.inboxes import Inboxes
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.queue.lanes import Lanes
from joblane.service.job.operations import Gone
from joblane.service.job.wake_up import send_wake_up
from joblane.service.log import Log
from joblane.service.target.assigned import AssignedJobs
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State


@dataclass(frozen=True)
class InstanceEnd:
    """Frees the jobs of agents that are gone."""

    agents: AgentStore
    facts: FactStore
    jobs: JobStore
    lanes: Lanes
    inboxes: Inboxes
    assigned: AssignedJobs
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def free(self, agent: str) -> None:
        """Free the jobs of an agent, and delete its facts and its inbox.

        An agent that drained has no row.

        An unknown name (an instance without agent) is ignored. Raises Unavailable; calling
        it again is safe.
        """
        row = self.agents.get(agent)
        if row is not None:
            self._free(agent, row)
        self.facts.delete(agent)
        self.inboxes.delete(agent)

    def _free(self, agent: str, row: Heartbeat) -> None:
        self.agents.end_lease(agent)
        ended = replace(row, beat_ms=0)
        freed = [job_id for job_id in row.jobs if self._wake(job_id, ended)]
        self.agents.delete(agent)
        self.log.warning("instance ended", agent=agent, jobs_freed=freed)

    def _wake(self, job_id: str, agent: Heartbeat) -> bool:
        """Send a message for a job that the agent still holds; False for any other."""
        head = self.jobs.get(job_id)
        if head is None or head.state is not State.ACTIVE or head.agent != agent.name:
            return False
        names = {"job_id": job_id, "trace_id": head.trace_id, "agent": agent.name}
        if head.assigned is None:
            send_wake_up(self.lanes, head)
            self.log.info("job freed", **names)
            return True
        with suppress(Refused, Gone):  # the agent reported its end first
            self.assigned.settle(head, agent, int(self.clock() * 1000))
            self.log.info("job failed with its agent", **names)
        return False
