"""The stage of an API: limits of its routes, and its access log."""

import json
from collections.abc import Mapping
from typing import cast

from aws_cdk import aws_apigatewayv2 as apigatewayv2
from constructs import Construct

from infra.policies import log_group
from joblane.config import Config
from joblane.contract.route import USUAL, Rate

_LOGGED = {
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


def add_stage(
    scope: Construct,
    config: Config,
    api: apigatewayv2.HttpApi,
    *,
    log_name: str,
    subject: str,
    rates: Mapping[str, Rate],
    mapping: apigatewayv2.DomainMappingOptions | None = None,
) -> apigatewayv2.HttpStage:
    """Create the stage; `subject` is the variable that the access log has as such.

    `rates` has the routes with other limits than `USUAL`. The stage must depend on them.
    """
    stage = apigatewayv2.HttpStage(
        scope,
        "Stage",
        http_api=api,
        stage_name="$default",
        auto_deploy=True,
        domain_mapping=mapping,
        # Of each route that has no limits of its own.
        throttle=apigatewayv2.ThrottleSettings(
            rate_limit=USUAL.per_second, burst_limit=USUAL.burst
        ),
    )
    resource = cast("apigatewayv2.CfnStage", stage.node.default_child)
    log = log_group(scope, "AccessLog", config, log_name)
    logged = {**_LOGGED, "subject": subject, "deployment": config.name}
    resource.access_log_settings = apigatewayv2.CfnStage.AccessLogSettingsProperty(
        destination_arn=log.log_group_arn, format=json.dumps(logged)
    )
    # Settings stay on the stage when their route goes, and then no update of the stage succeeds
    # ("Unable to find Route by key"): only exceptions are set. The construct takes none.
    resource.route_settings = {
        key: {"ThrottlingRateLimit": rate.per_second, "ThrottlingBurstLimit": rate.burst}
        for key, rate in rates.items()
    }
    return stage
