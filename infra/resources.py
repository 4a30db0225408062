"""ARNs of the deployment's resources, from their names.

Stacks do not export values to each other: an export in use cannot be removed, so removing a queue
from joblane.toml would block the deployment. Names follow from the configuration, ARNs from names;
`infra.compose` declares the order of deployment.
"""

from collections.abc import Iterable

from aws_cdk import Environment, Stack
from constructs import Construct

from joblane.config import Config
from joblane.deployment.names import (
    BUNDLES,
    EXPORTS,
    FILES,
    OUTPUT,
    OUTPUTS,
    PAYLOADS,
    RESULTS,
    alternate_name,
    bucket_name,
    dead_letter_name,
    descriptor_name,
    due_name,
    exports_dead_name,
    exports_name,
    inbox_name,
    lane_name,
    notify_name,
    recovery_name,
    recovery_rule_name,
    scaler_name,
    table_name,
    topic_name,
    traces_dead_name,
    traces_name,
)

LANES = "The prefix is that of lanes alone, or of their dead letters; queues come and go."
"""Reason for a policy with a pattern of lanes or dead-letter queues."""

INBOXES = "Each agent creates its own inbox: the prefix is exact, the agent's name is not known."
"""Reason for a policy with a pattern of inboxes."""

OBJECTS = "Objects are named by their jobs: the bucket is exact, the ids are not known."
"""Reason for a policy with a pattern of objects."""


class JoblaneStack(Stack):
    """One stack of a deployment, `<deployment>-<name>`."""

    def __init__(
        self,
        scope: Construct,
        config: Config,
        name: str,
        description: str,
        environment: Environment | None = None,
    ) -> None:
        """Create it; without an `environment` it can be deployed to any account and region."""
        super().__init__(
            scope,
            f"{config.name}-{name}",
            description=f"Joblane: {description}",
            env=environment,
        )
        self.config = config
        self.resources = ResourceArns(self, config.name)


class ResourceArns:
    """ARNs of a deployment with a stack's partition, region and account."""

    def __init__(self, stack: Stack, deployment: str) -> None:
        self._stack = stack
        self._name = deployment

    def table(self, table: str) -> str:
        """ARN of a table."""
        return self._arn("dynamodb", f"table/{table_name(self._name, table)}")

    def index(self, table: str, index: str) -> str:
        """ARN of one index of a table."""
        return f"{self.table(table)}/index/{index}"

    def lanes(self) -> str:
        """ARN pattern of every lane of the deployment."""
        return self._arn("sqs", lane_name(self._name, "*", "*"))

    def lanes_of(self, queues: Iterable[str]) -> list[str]:
        """ARN patterns of the lanes of these queues, one for each queue."""
        return [self._arn("sqs", lane_name(self._name, queue, "*")) for queue in queues]

    def dead_letters(self) -> str:
        """ARN of the dead-letter queue of all lanes."""
        return self._arn("sqs", dead_letter_name(self._name))

    def alternate(self) -> str:
        """ARN of the queue for events that could not be delivered."""
        return self._arn("sqs", alternate_name(self._name))

    def topic(self) -> str:
        """ARN of the topic that notifies operators."""
        return self._arn("sns", topic_name(self._name))

    def due(self) -> str:
        """ARN of the queue of schedules that are due within minutes."""
        return self._arn("sqs", due_name(self._name))

    def notify(self) -> str:
        """ARN of the queue of notifications."""
        return self._arn("sqs", notify_name(self._name))

    def traces(self) -> str:
        """ARN of the queue that feeds the span exporter."""
        return self._arn("sqs", traces_name(self._name))

    def traces_dead(self) -> str:
        """ARN of the queue of the same that could not be exported."""
        return self._arn("sqs", traces_dead_name(self._name))

    def exports(self) -> str:
        """ARN of the queue of ended jobs that wait to be exported."""
        return self._arn("sqs", exports_name(self._name))

    def exports_dead(self) -> str:
        """ARN of the queue of the same that could not be exported."""
        return self._arn("sqs", exports_dead_name(self._name))

    def default_bus(self) -> str:
        """ARN of the account's default EventBridge bus."""
        return self._arn("events", "event-bus/default")

    def inboxes(self) -> str:
        """ARN pattern of the inboxes that agents create."""
        return self._arn("sqs", inbox_name(self._name, "*"))

    def bucket(self) -> str:
        """Name of the bucket that holds large submissions and output."""
        return bucket_name(self._name, self._stack.account, self._stack.region)

    def payloads(self, tenant: str | None = None) -> str:
        """ARN pattern of the objects of large submissions, of one tenant or all."""
        return self._objects(PAYLOADS, tenant)

    def results(self, tenant: str | None = None) -> str:
        """ARN pattern of the objects of large results, of one tenant or all."""
        return self._objects(RESULTS, tenant)

    def output(self, tenant: str | None = None) -> str:
        """ARN pattern of the objects of output, of one tenant or all."""
        return self._objects(OUTPUT, tenant)

    def bundles(self, tenant: str | None = None) -> str:
        """ARN pattern of the bundles of job types, of one tenant or all."""
        return self._objects(BUNDLES, tenant)

    def files(self, tenant: str | None = None) -> str:
        """ARN pattern of the input files of jobs, of one tenant or all."""
        return self._objects(FILES, tenant)

    def exported_jobs(self) -> str:
        """ARN pattern of the objects with ended jobs, of all tenants."""
        return self._objects(EXPORTS, None)

    def output_files(self, tenant: str | None = None) -> str:
        """ARN pattern of the output files of jobs, of one tenant or all."""
        return self._objects(OUTPUTS, tenant)

    def bucket_arn(self) -> str:
        """ARN of the bucket itself, which listing needs."""
        return f"arn:{self._stack.partition}:s3:::{self.bucket()}"

    def recovery_machine(self) -> str:
        """ARN of the state machine that tests conditions."""
        return self._arn("states", f"stateMachine:{recovery_name(self._name)}")

    def recovery_rule(self) -> str:
        """ARN of the rule for failed executions of that machine."""
        return self._arn("events", f"rule/{recovery_rule_name(self._name)}")

    def recovery_function(self) -> str:
        """ARN of the function that tests conditions."""
        return self._arn("lambda", f"function:{recovery_name(self._name)}")

    def scaler_function(self) -> str:
        """ARN of the function that sizes fleets."""
        return self._arn("lambda", f"function:{scaler_name(self._name)}")

    def groups(self) -> str:
        """ARN pattern of the groups of all fleets, and of others that a tag must exclude."""
        return self._arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{self._name}-*")

    def group(self, full_name: str) -> str:
        """ARN pattern of a fleet's group: AWS puts an id before the name."""
        return self._arn("autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{full_name}")

    def secrets(self, tenant: str | None = None) -> str:
        """ARN pattern of the secrets of one tenant or all; AWS adds six letters to each."""
        return self._arn("secretsmanager", f"secret:{self._name}/{_below(tenant)}*")

    def secret(self, name: str) -> str:
        """ARN pattern of a secret, whose name ends in `-??????`."""
        return self._arn("secretsmanager", f"secret:{name}")

    def parameters(self, tenant: str | None = None) -> str:
        """ARN pattern of the parameters of one tenant, or of all and the descriptor."""
        return self._arn("ssm", f"parameter/{self._name}/{_below(tenant)}*")

    def descriptor(self) -> str:
        """ARN of the parameter with the descriptor."""
        return self._arn("ssm", f"parameter{descriptor_name(self._name)}")

    def public_parameters(self) -> str:
        """ARN pattern of the public parameters of AWS, which have no account."""
        return f"arn:{self._stack.partition}:ssm:{self._stack.region}::parameter/aws/service/*"

    def parameter(self, path: str) -> str:
        """ARN of a parameter, whose path begins with a slash."""
        return self._arn("ssm", f"parameter{path}")

    def keys(self) -> str:
        """ARN pattern of the account's KMS keys."""
        return self._arn("kms", "key/*")

    def queue_url_prefix(self) -> str:
        """Return the part of a queue's URL before its name."""
        stack = self._stack
        return f"https://sqs.{stack.region}.{stack.url_suffix}/{stack.account}/"

    def _objects(self, prefix: str, tenant: str | None) -> str:
        return f"arn:{self._stack.partition}:s3:::{self.bucket()}/{prefix}{_below(tenant)}*"

    def _arn(self, service: str, resource: str) -> str:
        stack = self._stack
        return f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:{resource}"


def _below(tenant: str | None) -> str:
    """The part of a name that says whose it is: secrets and objects begin with it."""
    return "" if tenant is None else f"{tenant}/"
