"""Makes the stores and clients of AWS that an agent uses."""

from functools import partial
from typing import TYPE_CHECKING

from ec2_agent.aws_calls.direct import DirectCalls
from ec2_agent.aws_calls.endpoint import AwsEndpoint, endpoint_of
from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.aws_calls.queues import WINDOW_S, Queues
from ec2_agent.host.clock import Clock
from ec2_agent.processes import boottime
from joblane.aws.clients import LONG_POLL, ONCE, TRANSFER, Clients
from joblane.aws.condition.conditions import ConditionStore
from joblane.aws.condition.executions import Executions
from joblane.aws.condition.places import ConditionPlaces
from joblane.aws.condition.requirements import Requirements
from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.files.store import FileStore
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.job.secret_store import SecretStore
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.settings import SettingsStore
from joblane.aws.typed.bundle_downloads import BundleDownloads
from joblane.aws.typed.types import TypeStore
from joblane.deployment.descriptor import Descriptor
from joblane.deployment.names import recovery_name, table_name
from joblane.service.condition.supervisor import ConditionSupervisor

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_sqs.client import SQSClient


class Aws:
    """The stores of a deployment, and the clients for queues and for the Auto Scaling group."""

    def __init__(self, descriptor: Descriptor, clients: Clients, clock: Clock) -> None:
        """Answers of DynamoDB, and those to direct calls, adjust the clock."""
        dynamodb, s3 = clients.make("dynamodb"), clients.make("s3")
        dynamodb.meta.events.register(
            "after-call.dynamodb", lambda parsed, **_: clock.adjust(parsed)
        )
        conditions = table_name(descriptor.name, "conditions")
        self.conditions = ConditionSupervisor(
            ConditionStore(dynamodb, conditions),
            Executions(clients.make("stepfunctions"), descriptor.recovery_arn),
            ConditionPlaces(dynamodb, conditions),
            descriptor.limits,
        )
        # It tests for up to 25 s, as a long poll may take.
        lambda_ = clients.make("lambda", LONG_POLL)
        self.requirements = Requirements(lambda_, recovery_name(descriptor.name))
        self.jobs = JobStore(dynamodb, descriptor.jobs_table)
        self._table_calls = _direct(dynamodb, clients, clock)
        self.job_calls = ClaimCalls(self.jobs, self._table_calls)
        self.agents = AgentStore(dynamodb, descriptor.agents_table)
        self.facts = FactStore(dynamodb, descriptor.agents_table)
        self.keys = KeyStore(dynamodb, table_name(descriptor.name, "keys"))
        self.payloads = PayloadStore(
            lambda: s3, descriptor.bucket, ArrayValues(dynamodb, descriptor.jobs_table)
        )
        self.results = ResultStore(lambda: s3, descriptor.bucket)
        self.output = OutputStore(
            dynamodb,
            descriptor.output_table,
            lambda: s3,
            descriptor.bucket,
            days=descriptor.retention.logs_days,
            clock=clock,
        )
        self.types = TypeStore(dynamodb, descriptor.types_table)
        self.bundles = BundleDownloads(lambda: s3, descriptor.bucket)
        files = clients.make("s3", TRANSFER)
        self.files = FileStore(lambda: files, descriptor.bucket)
        self.output_files = OutputFileStore(lambda: files, descriptor.bucket)
        self.secrets = SecretStore(
            clients.make("secretsmanager"), clients.make("ssm"), descriptor.name
        )
        self.settings = SettingsStore(dynamodb, table_name(descriptor.name, "settings"))
        self.sqs = clients.make("sqs", LONG_POLL)
        self._queue_calls = _direct(self.sqs, clients, clock)
        self.queues = Queues(self.sqs, WINDOW_S, self._queue_calls)
        self.autoscaling = clients.make("autoscaling")
        self.autoscaling_once = clients.make("autoscaling", ONCE)

    def close(self) -> None:
        """Close the connections of direct calls."""
        self._table_calls.close()
        self._queue_calls.close()

    def close_spare(self) -> None:
        """Close the connections that an idle agent does not need."""
        self._table_calls.close_spare()
        self._queue_calls.close_spare()


def _direct(client: "DynamoDBClient | SQSClient", clients: Clients, clock: Clock) -> DirectCalls:
    """Direct calls to the service of a client."""

    def find() -> AwsEndpoint:
        # Outside `of_session`: a lazy client takes the session's lock itself when it is first used.
        meta = client.meta
        return clients.of_session(partial(endpoint_of, meta))

    return DirectCalls(find, clock, boottime, clock.adjust_to)
