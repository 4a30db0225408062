"""Instance end: frees the jobs of an agent whose instance EC2 reports as gone.

Without it they are free when the agent's lease ends, up to five minutes later. The order makes a
repetition after a crash at any point right, because the row says what to do until the very end:

    this function            agents table          lane               another agent
    end the lease  ------->  beat 0
    send its messages  --------------------------> message  ------->  claim refused: active,
                                                                      the holder's lease is over:
                                                                      takes over
    (again, if it crashed)                         message  ------->  given back: runs here now
    forget the agent ----->  gone
"""

from joblane.startup import once  # first of all: see there

# isort: split
import os
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.lifecycle import State
from joblane.message import Message
from joblane.names import LANES, lane_name


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    queues: Annotated[Json[tuple[str, ...]], Field(alias="JOBLANE_QUEUE_NAMES")]


class InstanceEnd:
    """Frees jobs, over the stores it is handed."""

    def __init__(self, settings: Settings, clients: Clients, logger: Logger) -> None:
        dynamodb, sqs = clients.make("dynamodb"), clients.make("sqs")
        self._agents = AgentStore(dynamodb, settings.agents_table)
        self._jobs = JobStore(dynamodb, settings.jobs_table)
        self._logger = logger
        prefix, deployment = settings.queue_url_prefix, settings.deployment
        self._lanes = {
            (queue, lane): LaneQueue(sqs, prefix + lane_name(deployment, queue, lane))
            for queue in settings.queues
            for lane in LANES
        }

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Handle EC2's "Instance State-change Notification" of an instance that ended.

        An instance's id is its agent's name (infra/agent); one that ran no agent is nothing
        to us. Errors of AWS are raised: EventBridge tries again.
        """
        name = str(event["detail"]["instance-id"])
        agent = self._agents.get(name)
        if agent is None:
            return
        self._agents.end_lease(name)
        freed = [job_id for job_id in agent.jobs if self._free(job_id, name)]
        self._agents.goodbye(name)
        self._logger.warning("instance ended", agent=name, jobs_freed=freed)

    def _free(self, job_id: str, agent: str) -> bool:
        """Wake another agent for a job, if the dead one still holds it."""
        head = self._jobs.get(job_id)
        if head is None or head.state is not State.ACTIVE or head.agent != agent:
            return False
        self._lanes[head.queue, head.spec.priority].send(Message(job_id=job_id, tenant=head.tenant))
        return True


@cache
def _application() -> InstanceEnd:
    settings = Settings.model_validate(dict(os.environ))
    return once(lambda: InstanceEnd(settings, Clients(), Logger()))


def main(event: dict[str, Any], _context: object) -> None:
    """Handle one event of EventBridge."""
    _application()(event)
