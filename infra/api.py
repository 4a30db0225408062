"""The API stack: HTTP API, authorizer, functions, the shared layer, a machine client a tenant."""

import json
from collections.abc import Mapping

import jsii
from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.assets import Assets
from infra.function import Function, Grant, core_layer
from infra.identity import IdentityStack
from infra.outputs import client_output
from infra.policies import acknowledge, log_retention, removal
from infra.recovery import policies
from infra.resources import INBOXES, PAYLOADS, STREAMS, Resources
from joblane.config import (
    API_AUDIENCE,
    ROUTES,
    SCOPES,
    Config,
    FunctionName,
    log_group_name,
    table_name,
)

RATE_LIMIT = 500
BURST_LIMIT = 1000
"""Requests a second and at once that the stage lets through, over all tenants."""

TOKEN_VALIDITY = Duration.hours(1)


_ACCESS_LOG = {
    "time": "$context.requestTime",
    "request_id": "$context.requestId",
    "source_ip": "$context.identity.sourceIp",
    "route": "$context.routeKey",
    "status": "$context.status",
    "client_id": "$context.authorizer.claims.client_id",
    "error": "$context.error.message",
    "authorizer_error": "$context.authorizer.error",
    "integration_error": "$context.integrationErrorMessage",
    "latency_ms": "$context.responseLatency",
}


@jsii.implements(apigatewayv2.IAccessLogSettings)
class _AccessLog:
    """Where access is logged, and what of it; the CDK wants an object with these two."""

    def __init__(self, group: logs.ILogGroup) -> None:
        self._destination = apigatewayv2.LogGroupLogDestination(group)
        self._format = apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG))

    @property
    def destination(self) -> apigatewayv2.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> apigateway.AccessLogFormat:
        return self._format


class ApiStack(Stack):
    """Everything between a caller's token and the tables."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: Config,
        assets: Assets,
        identity: IdentityStack,
    ) -> None:
        super().__init__(scope, construct_id, description="Joblane: the HTTP API")
        self._config = config
        self._clients = {tenant: self._client(tenant, identity.pool) for tenant in config.tenants}
        self._layer = core_layer(self, config, assets)
        functions: dict[FunctionName, Function] = {
            "submission": self._submission(assets),
            "admin": self._admin(assets),
        }
        api = apigatewayv2.HttpApi(
            self,
            "Api",
            api_name=config.name,
            description="Submit jobs, read them, see the fleet",
            create_default_stage=False,
        )
        stage = self._stage(api)
        self._routes(api, functions, identity.pool)
        outputs = {
            "ApiUrl": stage.url,
            "ApiId": api.api_id,
            "UserPoolId": identity.pool.user_pool_id,
            "TokenUrl": identity.token_url,
        }
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
        for tenant, client in self._clients.items():
            CfnOutput(
                self,
                f"ClientId-{tenant}",
                value=client.user_pool_client_id,
                description=f"Machine client of the tenant {tenant}",
            ).override_logical_id(client_output(tenant))

    def _client(self, tenant: str, pool: cognito.IUserPool) -> cognito.UserPoolClient:
        """Return the tenant's confidential client; the next issue narrows its scopes by role."""
        client = cognito.UserPoolClient(
            self,
            f"Client-{tenant}",
            user_pool=pool,
            user_pool_client_name=f"{self._config.name}-{tenant}",
            generate_secret=True,
            access_token_validity=TOKEN_VALIDITY,
            prevent_user_existence_errors=True,
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(client_credentials=True),
                scopes=[cognito.OAuthScope.custom(f"{API_AUDIENCE}/{scope}") for scope in SCOPES],
            ),
        )
        client.apply_removal_policy(removal(self._config))
        return client

    def _submission(self, assets: Assets) -> Function:
        config, resources = self._config, Resources(self, self._config)
        submission = Function(
            self,
            "submission",
            config=config,
            code=assets.functions / "submission",
            layer=self._layer,
            environment={
                "JOBLANE_DEPLOYMENT": config.name,
                "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
                "JOBLANE_LOG_GROUP": log_group_name(config.name),
                "JOBLANE_BUCKET": resources.bucket(),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_DEFAULT_QUEUE": config.default_queue,
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_SETTINGS_TABLE": table_name(config.name, "settings"),
                "JOBLANE_TENANTS": self._tenants(),
            },
            grants=[
                Grant(
                    (
                        "dynamodb:PutItem",
                        "dynamodb:GetItem",
                        "dynamodb:BatchGetItem",
                        "dynamodb:UpdateItem",
                        "dynamodb:DeleteItem",
                    ),
                    (resources.table("jobs"),),
                ),
                Grant(("dynamodb:Query",), (resources.index("jobs", "by_tenant"),)),
                Grant(("dynamodb:BatchGetItem",), (resources.table("settings"),)),
                Grant(("sqs:SendMessage",), (*resources.lanes(config.queues), resources.inboxes())),
                Grant(("logs:GetLogEvents",), (resources.job_log_streams(),)),
                Grant(("s3:DeleteObject", "s3:GetObject", "s3:PutObject"), (resources.payloads(),)),
            ],
        )
        acknowledge(submission, resources.job_log_streams_finding(), STREAMS)
        acknowledge(submission, resources.payloads_finding(), PAYLOADS)
        acknowledge(submission, resources.inboxes_finding(), INBOXES)
        return submission

    def _admin(self, assets: Assets) -> Function:
        config, resources = self._config, Resources(self, self._config)
        admin = Function(
            self,
            "admin",
            config=config,
            code=assets.functions / "admin",
            layer=self._layer,
            environment={
                "JOBLANE_DEPLOYMENT": config.name,
                "JOBLANE_AGENTS_TABLE": table_name(config.name, "agents"),
                "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
                "JOBLANE_CONDITIONS_TABLE": table_name(config.name, "conditions"),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_SETTINGS_TABLE": table_name(config.name, "settings"),
                "JOBLANE_TENANTS": self._tenants(),
                "JOBLANE_THREADS": json.dumps(
                    {name: queue.threads for name, queue in config.queues.items()}
                ),
            },
            grants=[
                Grant(("dynamodb:GetItem", "dynamodb:Query"), (resources.table("agents"),)),
                Grant(
                    (
                        "dynamodb:BatchGetItem",
                        "dynamodb:DeleteItem",
                        "dynamodb:PutItem",
                        "dynamodb:Query",
                    ),
                    (resources.table("conditions"),),
                ),
                Grant(
                    ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"),
                    (resources.table("settings"),),
                ),
                Grant(
                    ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem"),
                    (resources.table("jobs"),),
                ),
                Grant(
                    ("dynamodb:Query",),
                    (resources.index("jobs", "by_tenant"), resources.index("jobs", "attention")),
                ),
                Grant(("sqs:SendMessage",), (*resources.lanes(config.queues), resources.inboxes())),
                Grant(
                    ("sqs:GetQueueAttributes",),
                    (
                        *resources.lanes(config.queues),
                        *resources.dead_letters(config.queues),
                    ),
                ),
            ],
        )
        acknowledge(admin, resources.inboxes_finding(), INBOXES)
        return admin

    def _queues(self) -> str:
        """JSON of each queue with the tenants that may use it; none means all."""
        return json.dumps(
            {name: list(queue.tenants) for name, queue in self._config.queues.items()}
        )

    def _tenants(self) -> str:
        """JSON from client id to tenant. The ids are tokens, which a JSON key cannot hold."""
        pairs = (
            f'"{client.user_pool_client_id}": "{tenant}"'
            for tenant, client in self._clients.items()
        )
        return "{" + ", ".join(pairs) + "}"

    def _stage(self, api: apigatewayv2.HttpApi) -> apigatewayv2.HttpStage:
        access_log = logs.LogGroup(
            self,
            "AccessLog",
            # Under vendedlogs the service needs no entry in the account's small log policy.
            log_group_name=f"/aws/vendedlogs/{self._config.name}/api",
            retention=log_retention(self._config),
            removal_policy=removal(self._config),
        )
        return apigatewayv2.HttpStage(
            self,
            "Stage",
            http_api=api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigatewayv2.ThrottleSettings(rate_limit=RATE_LIMIT, burst_limit=BURST_LIMIT),
            access_log_settings=_AccessLog(access_log),
        )

    def _routes(
        self,
        api: apigatewayv2.HttpApi,
        functions: Mapping[FunctionName, Function],
        pool: cognito.IUserPool,
    ) -> None:
        authorizer = authorizers.HttpJwtAuthorizer(
            "Tokens",
            f"https://cognito-idp.{self.region}.{self.url_suffix}/{pool.user_pool_id}",
            jwt_audience=[client.user_pool_client_id for client in self._clients.values()],
        )
        behind = {
            name: integrations.HttpLambdaIntegration(name.capitalize(), function.function)
            for name, function in functions.items()
        }
        for route in ROUTES:
            added = api.add_routes(
                path=route.path,
                methods=[apigatewayv2.HttpMethod[route.method]],
                integration=behind[route.function],
                authorizer=authorizer if route.scope else apigatewayv2.HttpNoneAuthorizer(),
                authorization_scopes=[f"{API_AUDIENCE}/{route.scope}"] if route.scope else None,
            )
            if route.scope is None:
                acknowledge(
                    added[0],
                    "AwsSolutions-APIG4",
                    "The health check answers anyone with `ok` and tells nothing else.",
                )
