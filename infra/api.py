"""The API stack: HTTP API, authorizer, functions, the shared layer, clients of the user pool."""

import json
from collections.abc import Mapping
from typing import cast

import jsii
from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.access import Gate, issuer_gate, pool_gate
from infra.assets import Assets
from infra.domain import MutualTls
from infra.function import Function, Grant, core_layer
from infra.identity import IdentityStack
from infra.policies import acknowledge, log_retention, removal
from infra.recovery import policies
from infra.resources import INBOXES, PAYLOADS, STREAMS, Resources
from joblane.config import Config
from joblane.contract.route import FunctionName
from joblane.contract.routes import ROUTES
from joblane.deployment.names import log_group_name, table_name

RATE_LIMIT = 500
BURST_LIMIT = 1000
"""Rate and burst limit of the stage, over all tenants."""

OPEN = "Public: returns `ok`, where to log in, or the OpenAPI document; no data of a tenant."
"""Reason for routes without a token."""


_ACCESS_LOG = {
    "time": "$context.requestTime",
    "request_id": "$context.requestId",
    "source_ip": "$context.identity.sourceIp",
    "route": "$context.routeKey",
    "status": "$context.status",
    "subject": "$context.authorizer.claims.sub",
    "error": "$context.error.message",
    "authorizer_error": "$context.authorizer.error",
    "integration_error": "$context.integrationErrorMessage",
    "latency_ms": "$context.responseLatency",
}


@jsii.implements(apigatewayv2.IAccessLogSettings)
class _AccessLog:
    """Destination and format of the access log; the CDK requires an object with these two."""

    def __init__(self, group: logs.ILogGroup) -> None:
        self._destination = apigatewayv2.LogGroupLogDestination(group)
        self._format = apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG))

    @property
    def destination(self) -> apigatewayv2.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> apigateway.AccessLogFormat:
        return self._format


def _gate(stack: Stack, config: Config, identity: IdentityStack | None) -> Gate:
    if config.access is not None:
        return issuer_gate(config, config.access)
    if identity is None:
        raise ValueError("without [access] there must be a user pool")
    return pool_gate(stack, config, identity)


class ApiStack(Stack):
    """The HTTP API and its functions."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: Config,
        assets: Assets,
        identity: IdentityStack | None,
    ) -> None:
        super().__init__(scope, construct_id, description="Joblane: the HTTP API")
        self._config = config
        self._gate = _gate(self, config, identity)
        self._layer = core_layer(self, config, assets)
        functions: dict[FunctionName, Function] = {
            "submission": self._submission(assets),
            "admin": self._admin(assets),
        }
        api = apigatewayv2.HttpApi(
            self,
            "Api",
            api_name=config.name,
            description="Submit and read jobs, operate queues and agents",
            create_default_stage=False,
            # The execute-api endpoint, which asks for no certificate.
            disable_execute_api_endpoint=True if config.domain else None,
        )
        stage = self._stage(api)
        self._routes(api, functions, stage)
        outputs = {"ApiUrl": stage.url, "ApiId": api.api_id}
        if identity is not None:
            outputs["UserPoolId"] = identity.pool.user_pool_id
            outputs["TokenUrl"] = identity.token_url
        if config.domain is not None:
            outputs["ApiUrl"] = f"https://{config.domain.name}/"
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)

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
                "JOBLANE_AUDIT_TABLE": table_name(config.name, "audit"),
                "JOBLANE_LOG_GROUP": log_group_name(config.name),
                "JOBLANE_BUCKET": resources.bucket(),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_DEFAULT_QUEUE": config.default_queue,
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_SETTINGS_TABLE": table_name(config.name, "settings"),
                "JOBLANE_ACCESS": self._gate.access,
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
                Grant(
                    ("dynamodb:Query",),
                    (resources.index("jobs", "by_tenant"), resources.index("jobs", "attention")),
                ),
                Grant(("dynamodb:BatchGetItem",), (resources.table("settings"),)),
                Grant(("sqs:SendMessage",), (*resources.lanes(config.queues), resources.inboxes())),
                Grant(("logs:GetLogEvents",), (resources.job_log_streams(),)),
                Grant(("dynamodb:PutItem",), (resources.table("audit"),)),
                Grant(("dynamodb:Query",), (resources.index("audit", "by_job"),)),
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
                "JOBLANE_LOGIN": self._gate.login,
                "JOBLANE_AUDIT_TABLE": table_name(config.name, "audit"),
                "JOBLANE_AGENTS_TABLE": table_name(config.name, "agents"),
                "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
                "JOBLANE_CONDITIONS_TABLE": table_name(config.name, "conditions"),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_SETTINGS_TABLE": table_name(config.name, "settings"),
                "JOBLANE_COUNTERS_TABLE": table_name(config.name, "counters"),
                "JOBLANE_THREADS": json.dumps(
                    {name: queue.threads for name, queue in config.queues.items()}
                ),
                "JOBLANE_ACCESS": self._gate.access,
            },
            grants=[
                Grant(("dynamodb:GetItem", "dynamodb:Query"), (resources.table("agents"),)),
                Grant(("dynamodb:Query",), (resources.table("counters"),)),
                Grant(("cloudwatch:GetMetricData",), ("*",)),  # it has no resources
                Grant(("dynamodb:PutItem", "dynamodb:Query"), (resources.table("audit"),)),
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

    def _stage(self, api: apigatewayv2.HttpApi) -> apigatewayv2.HttpStage:
        domain = self._config.domain
        mapping = None
        if domain is not None:
            name = MutualTls(self, "Domain", domain=domain).name
            mapping = apigatewayv2.DomainMappingOptions(domain_name=name)
        access_log = logs.LogGroup(
            self,
            "AccessLog",
            # Below /aws/vendedlogs no entry in the account's log resource policy is needed.
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
            domain_mapping=mapping,
            throttle=apigatewayv2.ThrottleSettings(rate_limit=RATE_LIMIT, burst_limit=BURST_LIMIT),
            access_log_settings=_AccessLog(access_log),
        )

    def _routes(
        self,
        api: apigatewayv2.HttpApi,
        functions: Mapping[FunctionName, Function],
        stage: apigatewayv2.HttpStage,
    ) -> None:
        authorizer = authorizers.HttpJwtAuthorizer(
            "Tokens", self._gate.issuer, jwt_audience=list(self._gate.audience)
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
                authorization_scopes=self._gate.scopes(route.scope) if route.scope else None,
            )
            if route.scope is None:
                acknowledge(
                    added[0],
                    "AwsSolutions-APIG4",
                    OPEN,
                )
            stage.node.add_dependency(*added)  # it refers to each route that it throttles
        throttled = {
            route.key: {
                "ThrottlingRateLimit": route.rate.per_second,
                "ThrottlingBurstLimit": route.rate.burst,
            }
            for route in ROUTES
        }
        cast("apigatewayv2.CfnStage", stage.node.default_child).add_property_override(
            "RouteSettings", throttled
        )
