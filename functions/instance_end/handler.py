"""Lambda function for agents that are gone.

Frees the jobs of an agent whose EC2 instance has ended, and deletes inboxes that are left over.
"""

from joblane.aws.lambda_startup import once  # first of all: see there

# isort: split
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.fleet.inboxes import Inboxes
from joblane.aws.job.jobs import JobStore
from joblane.aws.queue.lanes import Lanes
from joblane.service.fleet.inbox_sweep import InboxSweep
from joblane.service.fleet.instance_end import InstanceEnd
from joblane.service.job.operations import Operations
from joblane.service.target.assigned import AssignedJobs
from joblane.state.retention import Retention

SWEEP = {"task": "sweep-inboxes"}
"""The event of the daily schedule."""


class Context(Protocol):
    """What this function uses of Lambda's context."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends this invocation."""


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    agents_table: str
    retention: Json[Retention]


def build(
    settings: Settings, clients: Clients, clock: Callable[[], float] = time.time
) -> InstanceEnd:
    """Compose what an instance's end needs: settings, clients and a clock in Unix seconds."""
    dynamodb, sqs = clients.make("dynamodb"), clients.make("sqs")
    agents = AgentStore(dynamodb, settings.agents_table)
    jobs = JobStore(dynamodb, settings.jobs_table)
    lanes = Lanes(sqs, settings.queue_url_prefix, settings.deployment)
    operations = Operations(jobs, lanes, settings.retention)
    return InstanceEnd(
        agents,
        FactStore(dynamodb, settings.agents_table),
        jobs,
        lanes,
        Inboxes(sqs, settings.queue_url_prefix, settings.deployment),
        AssignedJobs(jobs, agents, operations, settings.retention),
        Logger(),
        clock,
    )


def sweep_of(end: InstanceEnd) -> InboxSweep:
    """Compose the daily sweep, of the same parts."""
    return InboxSweep(end.agents, end.inboxes, end.log)


@once
def _application() -> InstanceEnd:
    return build(Settings.read(__file__), Clients())


def main(event: Mapping[str, Any], context: Context) -> None:
    """Handle EC2's "Instance State-change Notification" of an instance that ended, or `SWEEP`.

    An instance's id is its agent's name (infra/agent). Errors of AWS are raised: EventBridge
    tries again.
    """
    end = _application()
    if event == SWEEP:
        sweep_of(end).run(lambda: context.get_remaining_time_in_millis() / 1000)
    else:
        end.free(str(event["detail"]["instance-id"]))
