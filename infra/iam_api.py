"""The API for callers with an IAM role: the same routes and functions, and signatures for tokens.

A route takes one authorizer, hence a second API (docs/decisions/2124).
"""

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.function import Function
from infra.stage import add_stage
from joblane.config import Config
from joblane.contract.route import FunctionName
from joblane.contract.routes import RATES, ROUTES
from joblane.deployment.names import iam_api_parameter_name, iam_log_name


class IamApi(Construct):
    """An HTTP API each of whose routes needs a signature; it has no console."""

    def __init__(
        self, stack: Stack, config: Config, functions: Mapping[FunctionName, Function]
    ) -> None:
        super().__init__(stack, "Iam")
        api = apigatewayv2.HttpApi(
            self,
            "Api",
            api_name=f"{config.name}-iam",
            description="The routes of the API for callers with an IAM role",
            create_default_stage=False,
        )
        stage = add_stage(
            self,
            config,
            api,
            log_name=iam_log_name(config.name),
            subject="$context.identity.userArn",
            rates=RATES,
        )
        authorizer = authorizers.HttpIamAuthorizer()
        # A permission for each function: with those of the other API, one for each route would be
        # near the 20 KB that a function's policy may have.
        behind = {
            name: integrations.HttpLambdaIntegration(
                name.capitalize(), function.function, scope_permission_to_route=False
            )
            for name, function in functions.items()
        }
        for route in ROUTES:
            added = api.add_routes(
                path=route.path,
                methods=[apigatewayv2.HttpMethod[route.method]],
                integration=behind[route.function],
                authorizer=authorizer,
            )
            if route.key in RATES:
                stage.node.add_dependency(*added)  # its settings refer to them
        ssm.StringParameter(
            self,
            "Id",
            parameter_name=iam_api_parameter_name(config.name),
            description="Id of the API of Joblane for IAM roles",
            string_value=api.api_id,
        )
        self.url = f"https://{api.api_id}.execute-api.{stack.region}.{stack.url_suffix}/"
        self.arn = stack.format_arn(service="execute-api", resource=api.api_id, resource_name="*")
