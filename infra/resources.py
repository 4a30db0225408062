"""ARNs of the deployment's resources, from their names.

Stacks do not export values to each other: an export in use cannot be removed, so removing a queue
from joblane.toml would block the deployment. Names follow from the configuration, ARNs from names;
`infra.compose` declares the order of deployment.
"""

from collections.abc import Iterable

from aws_cdk import ArnFormat, Stack

from joblane.config import Config
from joblane.deployment.names import (
    LANES,
    alternate_name,
    bucket_name,
    dead_letter_name,
    descriptor_name,
    inbox_name,
    lane_name,
    log_group_name,
    recovery_name,
    recovery_rule_name,
    table_name,
    topic_name,
)

INBOXES = "Each agent creates its own inbox: the prefix is exact, the agent's name is not known."
"""Reason for a policy with a pattern of inboxes."""

PAYLOADS = "One object a job, named by its id: the bucket is exact, the ids are not known."
"""Reason for a policy with a pattern of objects."""

STREAMS = "A stream a claim, named by the job: the group is exact, the streams are all of it."
"""Reason for a policy with a pattern of log streams."""


class Resources:
    """ARNs with a stack's partition, region and account."""

    def __init__(self, stack: Stack, config: Config) -> None:
        self._stack = stack
        self._config = config

    def table(self, table: str) -> str:
        """ARN of a table."""
        return self._stack.format_arn(
            service="dynamodb",
            resource="table",
            resource_name=table_name(self._config.name, table),
        )

    def index(self, table: str, index: str) -> str:
        """ARN of one index of a table."""
        return f"{self.table(table)}/index/{index}"

    def lanes(self, queues: Iterable[str]) -> list[str]:
        """ARNs of every lane of these queues."""
        name = self._config.name
        return [self._queue(lane_name(name, queue, lane)) for queue in queues for lane in LANES]

    def dead_letters(self, queues: Iterable[str]) -> list[str]:
        """ARNs of the dead-letter queue of every lane of these queues."""
        name = self._config.name
        return [
            self._queue(dead_letter_name(name, queue, lane)) for queue in queues for lane in LANES
        ]

    def alternate(self) -> str:
        """ARN of the queue for events that could not be delivered."""
        return self._queue(alternate_name(self._config.name))

    def topic(self) -> str:
        """ARN of the topic that notifies operators."""
        return self._stack.format_arn(service="sns", resource=topic_name(self._config.name))

    def inboxes(self) -> str:
        """ARN pattern of the inboxes that agents create."""
        return self._queue(inbox_name(self._config.name, "*"))

    def inboxes_finding(self) -> str:
        """Return what cdk-nag calls the wildcard of `inboxes`."""
        name = inbox_name(self._config.name, "*")
        return (
            "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:sqs:<AWS::Region>:"
            f"<AWS::AccountId>:{name}]"
        )

    def bucket(self) -> str:
        """Name of the bucket that holds large submissions."""
        return bucket_name(self._config.name, self._stack.account, self._stack.region)

    def payloads(self) -> str:
        """ARN pattern of the objects of large submissions, one for each job."""
        return self._stack.format_arn(
            service="s3", region="", account="", resource=self.bucket(), resource_name="*"
        )

    def payloads_finding(self) -> str:
        """Return what cdk-nag calls the wildcard of `payloads`."""
        bucket = bucket_name(self._config.name, "<AWS::AccountId>", "<AWS::Region>")
        return f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:s3:::{bucket}/*]"

    def job_log_streams(self) -> str:
        """ARN pattern of the log streams of jobs, one for each claim."""
        return self._stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"{log_group_name(self._config.name)}:log-stream:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def job_log_streams_finding(self) -> str:
        """Return what cdk-nag calls the wildcard of `job_log_streams`."""
        group = log_group_name(self._config.name)
        prefix = "arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>"
        return f"AwsSolutions-IAM5[Resource::{prefix}:log-group:{group}:log-stream:*]"

    def recovery_machine(self) -> str:
        """ARN of the state machine that tests conditions."""
        return self._stack.format_arn(
            service="states",
            resource="stateMachine",
            resource_name=recovery_name(self._config.name),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def recovery_rule(self) -> str:
        """ARN of the rule for failed executions of that machine."""
        return self._stack.format_arn(
            service="events", resource="rule", resource_name=recovery_rule_name(self._config.name)
        )

    def recovery_function(self) -> str:
        """ARN of the function that tests conditions."""
        return self._stack.format_arn(
            service="lambda",
            resource="function",
            resource_name=recovery_name(self._config.name),
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def group(self, full_name: str) -> str:
        """ARN pattern of a fleet's group: AWS puts an id before the name."""
        return self._stack.format_arn(
            service="autoscaling",
            resource="autoScalingGroup",
            resource_name=f"*:autoScalingGroupName/{full_name}",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    @staticmethod
    def group_finding(full_name: str) -> str:
        """Return what cdk-nag calls the wildcard of `group`."""
        prefix = "arn:<AWS::Partition>:autoscaling:<AWS::Region>:<AWS::AccountId>"
        return (
            f"AwsSolutions-IAM5[Resource::{prefix}:autoScalingGroup:*:"
            f"autoScalingGroupName/{full_name}]"
        )

    def descriptor(self) -> str:
        """ARN of the parameter that an agent reads at its start."""
        return self._stack.format_arn(
            service="ssm",
            resource="parameter",
            resource_name=descriptor_name(self._config.name).removeprefix("/"),
        )

    def secrets(self) -> str:
        """ARN pattern of the secrets that tenants may name; AWS adds six letters to each."""
        return self._stack.format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{self._config.name}/*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def parameters(self) -> str:
        """ARN pattern of the parameters that tenants may name."""
        return self._stack.format_arn(
            service="ssm", resource="parameter", resource_name=f"{self._config.name}/*"
        )

    def public_parameters(self) -> str:
        """ARN pattern of the public parameters of AWS, which have no account."""
        return self._stack.format_arn(
            service="ssm", account="", resource="parameter", resource_name="aws/service/*"
        )

    def keys(self) -> str:
        """ARN pattern of the account's KMS keys."""
        return self._stack.format_arn(service="kms", resource="key", resource_name="*")

    def secret_findings(self) -> tuple[str, ...]:
        """Return what cdk-nag calls the wildcards of `secrets`, `parameters` and `keys`."""
        name = self._config.name
        return tuple(
            f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:{service}:<AWS::Region>:"
            f"<AWS::AccountId>:{resource}]"
            for service, resource in (
                ("secretsmanager", f"secret:{name}/*"),
                ("ssm", f"parameter/{name}/*"),
                ("kms", "key/*"),
            )
        )

    def queue_url_prefix(self) -> str:
        """Return the part of a queue's URL before its name."""
        stack = self._stack
        return f"https://sqs.{stack.region}.{stack.url_suffix}/{stack.account}/"

    def _queue(self, name: str) -> str:
        return self._stack.format_arn(service="sqs", resource=name)
