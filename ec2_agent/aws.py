"""Makes the stores and clients of AWS that an agent uses."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ec2_agent.host.clock import Clock
from ec2_agent.lanes.intake import LanePair
from ec2_agent.lanes.polling import LaneKey
from joblane.aws.agents import AgentStore
from joblane.aws.clients import LONG_POLL, Clients
from joblane.aws.conditions import ConditionStore
from joblane.aws.executions import Executions
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.aws.payload_store import PayloadStore
from joblane.aws.requirements import Requirements
from joblane.aws.secret_store import SecretStore
from joblane.aws.settings import SettingsStore
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import LANES, recovery_name, table_name
from joblane.service.condition_supervisor import ConditionSupervisor

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient
    from mypy_boto3_sqs.client import SQSClient


@dataclass(frozen=True, slots=True)
class Aws:
    """The stores, and the clients for queues and for the Auto Scaling group."""

    jobs: JobStore
    agents: AgentStore
    conditions: ConditionSupervisor | None
    """None in a deployment without recovery."""
    requirements: Requirements | None
    """None in a deployment without recovery."""
    payloads: PayloadStore
    logs: LogStore
    secrets: SecretStore
    settings: SettingsStore
    sqs: "SQSClient"
    """With a timeout for long polls."""
    autoscaling: "AutoScalingClient"

    def lane_pairs(self, descriptor: Descriptor) -> dict[LaneKey, LanePair]:
        """Every lane and its dead-letter queue, by queue and lane."""
        return {
            (queue, lane): LanePair(
                LaneQueue(self.sqs, descriptor.lane_url(queue, lane)),
                LaneQueue(self.sqs, descriptor.dead_letter_url(queue, lane)),
            )
            for queue in descriptor.queues
            for lane in LANES
        }


def make_aws(descriptor: Descriptor, clients: Clients, clock: Clock) -> Aws:
    """Make the stores of a deployment; answers of DynamoDB adjust the clock."""
    dynamodb, s3 = clients.make("dynamodb"), clients.make("s3")
    dynamodb.meta.events.register("after-call.dynamodb", lambda parsed, **_: clock.adjust(parsed))
    conditions = requirements = None
    if descriptor.recovery_arn is not None:
        conditions = ConditionSupervisor(
            ConditionStore(dynamodb, table_name(descriptor.name, "conditions")),
            Executions(clients.make("stepfunctions"), descriptor.recovery_arn),
        )
        # It tests for up to 25 s, as a long poll may take.
        lambda_ = clients.make("lambda", LONG_POLL)
        requirements = Requirements(lambda_, recovery_name(descriptor.name))
    return Aws(
        jobs=JobStore(dynamodb, descriptor.jobs_table),
        agents=AgentStore(dynamodb, descriptor.agents_table),
        conditions=conditions,
        requirements=requirements,
        payloads=PayloadStore(lambda: s3, descriptor.bucket),
        logs=LogStore(clients.make("logs"), descriptor.log_group),
        secrets=SecretStore(clients.make("secretsmanager"), clients.make("ssm"), descriptor.name),
        settings=SettingsStore(dynamodb, table_name(descriptor.name, "settings")),
        sqs=clients.make("sqs", LONG_POLL),
        autoscaling=clients.make("autoscaling"),
    )
