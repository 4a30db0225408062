"""A Lambda function with its role and its log group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.assets import Assets
from infra.policies import acknowledge, log_retention, removal
from joblane.config import Config

TIMEOUT_S = 29
"""API Gateway closes the connection after 30 s; the function ends a second earlier."""

MEMORY_MB = 512


@dataclass(frozen=True)
class Grant:
    """Actions on resources; a function's role has these and its own log group only."""

    actions: Sequence[str]
    resources: Sequence[str]
    conditions: Mapping[str, Mapping[str, object]] | None = None

    def statement(self) -> iam.PolicyStatement:
        """Return this grant as a statement of a policy."""
        return iam.PolicyStatement(
            actions=list(self.actions), resources=list(self.resources), conditions=self.conditions
        )


def core_layer(scope: Construct, config: Config, assets: Assets) -> lambda_.LayerVersion:
    """Create the layer with the package joblane and its dependencies, one for each stack."""
    return lambda_.LayerVersion(
        scope,
        "Core",
        layer_version_name=f"{config.name}-core",
        description="The package joblane and its dependencies",
        code=lambda_.Code.from_asset(str(assets.layer)),
        compatible_runtimes=[
            lambda_.Runtime(config.functions.runtime, lambda_.RuntimeFamily.PYTHON)
        ],
        compatible_architectures=[lambda_.Architecture.custom(config.functions.architecture)],
        removal_policy=removal(config),
    )


class Function(Construct):
    """A handler of `functions/<name>`, shipped with the shared layer."""

    def __init__(  # noqa: PLR0913 - the properties of a function
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        code: Path,
        layer: lambda_.ILayerVersion,
        environment: Mapping[str, str],
        grants: Sequence[Grant],
        timeout_s: int = TIMEOUT_S,
    ) -> None:
        super().__init__(scope, name.capitalize())
        function_name = f"{config.name}-{name}"
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=log_retention(config),
            removal_policy=removal(config),
        )
        role = iam.Role(
            self,
            "Role",
            role_name=None,
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Permissions of the function {function_name}",
        )
        own_logs = Grant(("logs:CreateLogStream", "logs:PutLogEvents"), (log_group.log_group_arn,))
        for grant in (own_logs, *grants):
            role.add_to_policy(grant.statement())
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            code=lambda_.Code.from_asset(str(code), exclude=["__pycache__", "**/__pycache__/**"]),
            handler="handler.main",
            runtime=lambda_.Runtime(config.functions.runtime, lambda_.RuntimeFamily.PYTHON),
            architecture=lambda_.Architecture.custom(config.functions.architecture),
            layers=[layer],
            memory_size=MEMORY_MB,
            timeout=Duration.seconds(timeout_s),
            role=role,
            log_group=log_group,
            tracing=lambda_.Tracing.ACTIVE,
            environment={
                "POWERTOOLS_SERVICE_NAME": name,
                # Without it pydantic searches every installed package for plugins at a cold start.
                "PYDANTIC_DISABLE_PLUGINS": "__all__",
                **environment,
            },
        )
        acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            "xray:PutTraceSegments and PutTelemetryRecords know no resources.",
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "The runtime is configuration: the layer's wheels must match it, also on a laptop.",
        )

    def keep_failures(self, queue_arn: str, *, retries: int, max_age_s: int) -> None:
        """Send failed asynchronous calls to a queue.

        Lambda sends them, with the permissions of this function's role.
        """
        lambda_.CfnEventInvokeConfig(
            self,
            "Failures",
            function_name=self.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=retries,
            maximum_event_age_in_seconds=max_age_s,
            destination_config={"onFailure": {"destination": queue_arn}},
        )
