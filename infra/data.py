"""The data stack: tables, the bucket, and the descriptor for agents.

Every index is KEYS_ONLY: with a projected attribute each change of a job would pay for the index
again. The audit trail is the exception, because its rows never change.
"""

from collections.abc import Mapping

from aws_cdk import Duration, Environment
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.policies import acknowledge, removal
from infra.resources import JoblaneStack, ResourceArns
from joblane.config import Config
from joblane.deployment.descriptor import Descriptor, QueueDescriptor
from joblane.deployment.names import (
    EXPORTS,
    FILES,
    OUTPUT,
    OUTPUTS,
    PAYLOADS,
    RESULTS,
    access_log_bucket_name,
    descriptor_name,
    stream_parameter_name,
    table_name,
)

TTL_ATTRIBUTE = "expires_at"

PREFLIGHT_S = 3600
"""Seconds for which a browser need not ask again whether it may send files to the bucket."""

Key = tuple[str, dynamodb.AttributeType]

_TEXT = dynamodb.AttributeType.STRING
_NUMBER = dynamodb.AttributeType.NUMBER

TABLES: dict[str, tuple[Key, Key | None]] = {
    "jobs": (("job_id", _TEXT), ("sk", _TEXT)),
    "agents": (("shard", _TEXT), ("agent", _TEXT)),
    "keys": (("key", _TEXT), None),
    "conditions": (("condition", _TEXT), ("sk", _TEXT)),
    "types": (("type", _TEXT), None),
    "settings": (("queue", _TEXT), None),
    "counters": (("series", _TEXT), ("at_minute", _NUMBER)),
    "audit": (("tenant", _TEXT), ("id", _TEXT)),
    "output": (("stream", _TEXT), ("seq", _NUMBER)),
}
"""Each table with its partition key and its sort key, if any."""

NOT_BACKED_UP = {
    "output": "Recovery would cost almost as much as the storage: agents only add output, and what "
    "removes it, its expiry and the deletion of its job, is meant to be final."
}
"""Tables without point-in-time recovery, each with the reason."""

JOB_INDEXES: dict[str, tuple[Key, Key]] = {
    "by_tenant": (("tenant", _TEXT), ("job_id", _TEXT)),
    "attention": (("attention", _TEXT), ("job_id", _TEXT)),
    "wake": (("wake", _TEXT), ("wake_at", _NUMBER)),
}
"""Indexes of the jobs table; the last two are sparse."""

KEY_INDEXES: dict[str, tuple[Key, Key]] = {
    "by_type": (("type", _TEXT), ("key", _TEXT)),
    "waits": (("waits", _TEXT), ("look_at", _NUMBER)),
}
"""Indexes of the keys table. An entry of the first changes only when a key's row comes or goes; the
second is sparse."""


class DataStack(JoblaneStack):
    """The resources that hold data.

    In a known `environment` the names of the buckets are literal, which CloudFormation requires of
    what it adopts (docs/decisions/1211).
    """

    def __init__(self, scope: Construct, config: Config, environment: Environment | None) -> None:
        super().__init__(scope, config, "data", "tables and buckets", environment)
        tables = {
            name: self._table(name, partition, sort) for name, (partition, sort) in TABLES.items()
        }
        for name, indexes in {"jobs": JOB_INDEXES, "keys": KEY_INDEXES}.items():
            for index, (partition, sort) in indexes.items():
                tables[name].add_global_secondary_index(
                    index_name=index,
                    partition_key=_attribute(partition),
                    sort_key=_attribute(sort),
                    projection_type=dynamodb.ProjectionType.KEYS_ONLY,
                )
        tables["audit"].add_global_secondary_index(
            index_name="by_job",
            partition_key=_attribute(("job", _TEXT)),
            sort_key=_attribute(("id", _TEXT)),
            # Rows never change, so a full copy costs one write and saves a read of each.
            projection_type=dynamodb.ProjectionType.ALL,
        )
        for name, reason in NOT_BACKED_UP.items():
            acknowledge(tables[name], "AwsSolutions-DDB3", reason)
        _append_only(tables["audit"], self.resources.table("audit"))
        ssm.StringParameter(
            self,
            "Descriptor",
            parameter_name=descriptor_name(config.name),
            description="Queues and tables of this deployment, read by agents at their start",
            string_value=describe(config, self.resources),
            # Above 4 KB it is an advanced parameter, at $0.05 a month.
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,
        )
        stream = tables["jobs"].table_stream_arn
        if stream is None:
            raise ValueError("the jobs table has no stream")
        # The access log of the bucket of large submissions and output, and that bucket.
        retention = config.retention
        log_name = access_log_bucket_name(config.name, self.account, self.region)
        accesses = self._bucket("Accesses", log_name, {"": retention.logs_days})
        days = {
            PAYLOADS: retention.payload_days,
            RESULTS: retention.payload_days,
            OUTPUT: retention.logs_days,
            FILES: retention.stored_files_days,
            OUTPUTS: retention.payload_days,
            EXPORTS: retention.exports_days,
        }
        self._bucket("Payloads", self.resources.bucket(), days, accesses, self._uploads())
        for table in tables.values():
            # Last, so that no failure of another resource rolls back a protected table.
            others = (each for each in self.node.children if each not in tables.values())
            table.node.add_dependency(*others)
        ssm.StringParameter(
            self,
            "JobsStream",
            parameter_name=stream_parameter_name(config.name),
            description="Stream of the jobs table, read when the projection stack is deployed",
            string_value=stream,
        )

    def _bucket(
        self,
        construct_id: str,
        bucket_name: str,
        days: Mapping[str, int],
        accesses: s3.Bucket | None = None,
        cors: s3.CorsRule | None = None,
    ) -> s3.Bucket:
        """Create a bucket; `days` is how long it keeps the objects with each prefix."""
        return s3.Bucket(
            self,
            construct_id,
            bucket_name=bucket_name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix=prefix or None,
                    expiration=Duration.days(number),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
                for prefix, number in days.items()
            ],
            server_access_logs_bucket=accesses,
            cors=None if cors is None else [cors],
            removal_policy=removal(self.config),
        )

    def _uploads(self) -> s3.CorsRule:
        """Allow pages of the console to send input files, as the API has signed them.

        The API's id is not known before its stack, which comes after this one: without a domain of
        its own the origin is that of any HTTP API of the region (docs/decisions/1812).
        """
        host = f"*.execute-api.{self.region}.{self.url_suffix}"
        if self.config.domain is not None:
            host = self.config.domain.name
        return s3.CorsRule(
            allowed_origins=[f"https://{host}"],
            allowed_methods=[s3.HttpMethods.PUT],
            # Length and digest are signed; a browser sends the length without being asked.
            allowed_headers=["x-amz-checksum-sha256"],
            max_age=PREFLIGHT_S,
        )

    def _table(self, name: str, partition: Key, sort: Key | None) -> dynamodb.Table:
        return dynamodb.Table(
            self,
            f"{name.capitalize()}Table",
            table_name=table_name(self.config.name, name),
            partition_key=_attribute(partition),
            sort_key=_attribute(sort) if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            # The account's aws/dynamodb key: no monthly fee, and CloudTrail shows its use.
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if name == "jobs" else None,
            time_to_live_attribute=TTL_ATTRIBUTE,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=name not in NOT_BACKED_UP
            ),
            deletion_protection=self.config.removal == "retain",
            removal_policy=removal(self.config),
        )


def _append_only(table: dynamodb.Table, arn: str) -> None:
    """Deny every principal of this account to change or delete a row; TTL is not a caller."""
    table.add_to_resource_policy(
        iam.PolicyStatement(
            sid="AppendOnly",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=[
                "dynamodb:BatchWriteItem",
                "dynamodb:DeleteItem",
                "dynamodb:PartiQLDelete",
                "dynamodb:PartiQLUpdate",
                "dynamodb:UpdateItem",
            ],
            resources=[arn],
        )
    )


def describe(config: Config, resources: ResourceArns) -> str:
    """Return the descriptor's JSON, which contains CDK tokens."""
    return Descriptor(
        name=config.name,
        jobs_table=table_name(config.name, "jobs"),
        agents_table=table_name(config.name, "agents"),
        output_table=table_name(config.name, "output"),
        bucket=resources.bucket(),
        queue_url_prefix=resources.queue_url_prefix(),
        retention=config.retention,
        queues={
            name: QueueDescriptor(threads=queue.threads) for name, queue in config.queues.items()
        },
        recovery_arn=resources.recovery_machine(),
        limits=config.limits_by_tenant.only(
            "jobs_running",
            "output_mb_per_job",
            "recovery_executions",
            "output_files_mb_per_job",
            "output_files_per_job",
        ),
    ).model_dump_json(exclude_none=True)


def _attribute(key: Key) -> dynamodb.Attribute:
    name, kind = key
    return dynamodb.Attribute(name=name, type=kind)
