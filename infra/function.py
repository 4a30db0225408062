"""A Lambda function with its role and its log group."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from aws_cdk import Duration, RemovalPolicy, Stack, Stage
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.assets import Assets
from infra.policies import PolicyGrant, acknowledge, give, log_group
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.deployment.names import VARIABLES, table_name

TIMEOUT_S = 29
"""API Gateway closes the connection after 30 s; the function ends a second earlier."""

MEMORY_MB = 512


def concurrency(config: Config) -> str:
    """JSON of the policies of [concurrency], by their names."""
    policies = config.concurrency.items()
    return json.dumps(
        {name: policy.model_dump(mode="json", exclude_defaults=True) for name, policy in policies}
    )


class FunctionStack(JoblaneStack):
    """A stack with functions.

    A layer's ARN ends in its version, so it has no fixed name, and an export would couple the
    stacks: each has its own layer.
    """

    def __init__(
        self, scope: Construct, config: Config, assets: Assets, name: str, description: str
    ) -> None:
        super().__init__(scope, config, name, description)
        self.handlers = assets.functions
        self.runtime = lambda_.Runtime(config.functions.runtime, lambda_.RuntimeFamily.PYTHON)
        self.architecture = lambda_.Architecture.custom(config.functions.architecture)
        self.layer = lambda_.LayerVersion(
            self,
            "Core",
            layer_version_name=f"{config.name}-core",
            description="The package joblane and its dependencies",
            code=lambda_.Code.from_asset(str(assets.layer)),
            compatible_runtimes=[self.runtime],
            compatible_architectures=[self.architecture],
            removal_policy=RemovalPolicy.DESTROY,
        )

    def bundle(self, function: str, declared: Mapping[str, str]) -> Path:
        """Return a folder beside the assets with a function's code and its variables."""
        stage = Stage.of(self)
        if stage is None:
            raise ValueError("the stack belongs to no app")
        folder = Path(stage.asset_outdir) / "functions" / f"{self.stack_name}-{function}"
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self.handlers / function, folder, ignore=ignored)
        text = json.dumps(declared, indent=1, sort_keys=True)
        (folder / VARIABLES).write_text(text, encoding="utf-8")
        return folder


class Function(Construct):
    """A handler of `functions/<name>`, shipped with the shared layer."""

    def __init__(
        self,
        stack: FunctionStack,
        name: str,
        *,
        environment: Mapping[str, str],
        declared: Mapping[str, str],
        grants: Sequence[PolicyGrant] | None,
        tables: Sequence[str] = (),
        timeout_s: int = TIMEOUT_S,
        reserved: int | None = None,
    ) -> None:
        """Create it; the environment names `tables`, the role has `grants` and its log group.

        `environment` has further names and ids of resources. `declared` has the variables that
        joblane.toml determines: they grow with it, so they are in the bundle, without CDK tokens.

        `reserved` calls can run at once whatever other functions do, and no more than these; None:
        as many as the others leave.

        Without `grants` (None) the role has no permission at all: the function writes no log.
        """
        super().__init__(stack, name.capitalize())
        config = stack.config
        function_name = f"{config.name}-{name}"
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Permissions of the function {function_name}",
        )
        own_logs = None
        if grants is not None:
            own_logs = log_group(self, "Logs", config, f"/aws/lambda/{function_name}")
            log = PolicyGrant(
                ("logs:CreateLogStream", "logs:PutLogEvents"), (own_logs.log_group_arn,)
            )
            give(role, (log, *grants))
        code = str(stack.bundle(name, declared))
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            code=lambda_.Code.from_asset(code),
            handler="handler.main",
            runtime=stack.runtime,
            architecture=stack.architecture,
            layers=[stack.layer],
            memory_size=MEMORY_MB,
            timeout=Duration.seconds(timeout_s),
            reserved_concurrent_executions=(
                reserved if config.functions.reserved_concurrency else None
            ),
            role=role,
            log_group=own_logs,
            environment={
                "POWERTOOLS_SERVICE_NAME": name,
                # Without it pydantic searches every installed package for plugins at a cold start.
                "PYDANTIC_DISABLE_PLUGINS": "__all__",
                "JOBLANE_DEPLOYMENT": config.name,
                "JOBLANE_QUEUE_URL_PREFIX": stack.resources.queue_url_prefix(),
                **{
                    f"JOBLANE_{table.upper()}_TABLE": table_name(config.name, table)
                    for table in tables
                },
                **environment,
            },
        )
        # Said although it is the default: CloudFormation turns off what was turned on by hand.
        # The construct's own property would bring permissions for X-Ray.
        resource = cast("lambda_.CfnFunction", self.function.node.default_child)
        resource.tracing_config = lambda_.CfnFunction.TracingConfigProperty(mode="PassThrough")
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "The runtime is configuration: the layer's wheels must match it, also on a laptop.",
        )

    def consume(
        self,
        construct_id: str,
        queue_arn: str,
        *,
        at_once: int,
        batch: int = 10,
        window_s: int | None = None,
    ) -> None:
        """Call it with so many messages of a queue at a time, and at most so many calls at once.

        Above ten messages Lambda collects them for `window_s`, or until they have 6 MB.
        """
        mapping = lambda_.EventSourceMapping(
            Stack.of(self),
            construct_id,
            target=self.function,
            event_source_arn=queue_arn,
            batch_size=batch,
            max_batching_window=None if window_s is None else Duration.seconds(window_s),
            max_concurrency=at_once,
            report_batch_item_failures=True,
        )
        # Lambda tests the role before it connects the queue.
        mapping.node.add_dependency(self)

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
