"""The console: its function and its two routes, which need no token."""

import shutil
from pathlib import Path

from aws_cdk import Duration, Stage
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.assets import Assets
from infra.console_files import write_console
from infra.function import FunctionStack
from infra.policies import acknowledge
from joblane.contract.public_routes import CONSOLE_ROUTES

TIMEOUT_S = 5
MEMORY_MB = 128

OPEN = "Public: the files of the console, which are the same for everybody; its data needs a token."
"""Reason for routes without a token."""


class ConsoleFunction(Construct):
    """A function with the console's files, which may call nothing."""

    def __init__(
        self,
        stack: FunctionStack,
        assets: Assets,
        api: apigatewayv2.HttpApi,
        stage: apigatewayv2.HttpStage,
        connect: str,
    ) -> None:
        """Create it; `connect` has the origins that its page may send requests to beside its own.

        They are separated by spaces, as in a content security policy.
        """
        super().__init__(stack, "Console")
        name = f"{stack.config.name}-console"
        function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description="The files of the console",
            code=lambda_.Code.from_asset(str(_bundle(stack, assets))),
            handler="handler.main",
            runtime=stack.runtime,
            architecture=stack.architecture,
            memory_size=MEMORY_MB,
            timeout=Duration.seconds(TIMEOUT_S),
            role=iam.Role(
                self,
                "Role",
                assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
                description=f"Permissions of the function {name}: none",
            ),
            environment={"JOBLANE_CONNECT": connect},
        )
        acknowledge(
            function,
            "AwsSolutions-L1",
            "The runtime is configuration: the layer's wheels must match it, also on a laptop.",
        )
        integration = integrations.HttpLambdaIntegration("Console", function)
        for key in CONSOLE_ROUTES:
            (route,) = api.add_routes(
                path=key.removeprefix("GET "),
                methods=[apigatewayv2.HttpMethod.GET],
                integration=integration,
                authorizer=apigatewayv2.HttpNoneAuthorizer(),
            )
            acknowledge(route, "AwsSolutions-APIG4", OPEN)
            stage.node.add_dependency(route)  # its settings refer to them


def _bundle(stack: FunctionStack, assets: Assets) -> Path:
    """Return a folder beside the assets with the function's code and files."""
    stage = Stage.of(stack)
    if stage is None:
        raise ValueError("the stack belongs to no app")
    folder = Path(stage.asset_outdir) / "functions" / f"{stack.stack_name}-console"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(stack.handlers / "console" / "handler.py", folder)
    write_console(assets.console, folder)
    return folder
