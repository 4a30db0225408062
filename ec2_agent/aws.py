"""What of AWS an agent uses: a store for each part of its deployment."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ec2_agent.clock import Clock
from ec2_agent.intake import LanePair
from ec2_agent.polling import LaneKey
from joblane.aws.agents import AgentStore
from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.conditions import ConditionStore
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.aws.payloads import Payloads
from joblane.aws.requirements import Requirements
from joblane.aws.secret_store import SecretStore
from joblane.aws.settings import SettingsStore
from joblane.config import Descriptor
from joblane.names import LANES, recovery_name, table_name

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True, slots=True)
class Aws:
    """The stores, and the two clients that others make queues and groups of."""

    jobs: JobStore
    agents: AgentStore
    conditions: ConditionStore | None
    """None in a deployment without recovery."""
    requirements: Requirements | None
    """None as well then."""
    payloads: Payloads
    logs: LogStore
    secrets: SecretStore
    settings: SettingsStore
    sqs: "SQSClient"
    """Waits for long polls."""
    autoscaling: "AutoScalingClient"

    def lane_pairs(self, descriptor: Descriptor) -> dict[LaneKey, LanePair]:
        """Each lane of each queue with its dead letters, by the names of both."""
        return {
            (queue, lane): LanePair(
                LaneQueue(self.sqs, descriptor.lane_url(queue, lane)),
                LaneQueue(self.sqs, descriptor.dead_letter_url(queue, lane)),
            )
            for queue in descriptor.queues
            for lane in LANES
        }


def make_aws(descriptor: Descriptor, clients: Clients, clock: Clock) -> Aws:
    """Make the stores of a deployment; the clock hears what time it is there."""
    dynamodb, s3 = clients.make("dynamodb"), clients.make("s3")
    dynamodb.meta.events.register("after-call.dynamodb", lambda parsed, **_: clock.hear(parsed))
    conditions = requirements = None
    if descriptor.recovery_arn is not None:
        conditions = ConditionStore(
            dynamodb,
            table_name(descriptor.name, "conditions"),
            clients.make("stepfunctions"),
            descriptor.recovery_arn,
        )
        # It tests for up to 25 s, as a long poll may take.
        lambda_ = clients.make("lambda", LONG_POLL)
        requirements = Requirements(lambda_, recovery_name(descriptor.name))
    return Aws(
        jobs=JobStore(dynamodb, descriptor.jobs_table),
        agents=AgentStore(dynamodb, descriptor.agents_table),
        conditions=conditions,
        requirements=requirements,
        payloads=Payloads(lambda: s3, descriptor.bucket),
        logs=LogStore(clients.make("logs"), descriptor.log_group),
        secrets=SecretStore(clients.make("secretsmanager"), clients.make("ssm"), descriptor.name),
        settings=SettingsStore(dynamodb, table_name(descriptor.name, "settings")),
        sqs=clients.make("sqs", LONG_POLL),
        autoscaling=clients.make("autoscaling"),
    )
