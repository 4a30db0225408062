"""The API stack: HTTP API, authorizer, functions, the shared layer, clients of the user pool."""

import json
from collections.abc import Mapping

from aws_cdk import CfnOutput
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.access import issuer_gate, pool_gate
from infra.assets import Assets
from infra.console import ConsoleFunction
from infra.declared import deadlines, fleets, maxima, metrics, queues, retired, threads
from infra.domain import MutualTls
from infra.function import Function, FunctionStack, concurrency
from infra.iam_api import IamApi
from infra.identity import IdentityStack
from infra.policies import PolicyGrant, acknowledge, sending, table_grant
from infra.recovery import fleet_queues, policies
from infra.resources import LANES, OBJECTS
from infra.stage import add_stage
from infra.submitting import submitting
from joblane.config import Config
from joblane.contract.access import CONSOLE_PATH
from joblane.contract.public_routes import CONSOLE_ROUTES
from joblane.contract.route import FunctionName
from joblane.contract.routes import RATES, ROUTES
from joblane.deployment.limits import ADMITTED, LIMITS
from joblane.deployment.names import (
    OUTPUTS,
    access_log_name,
    api_id_parameter_name,
    api_parameter_name,
)

OPEN = "Public: returns `ok`, where to log in, or the OpenAPI document; no data of a tenant."
"""Reason for routes without a token."""


class ApiStack(FunctionStack):
    """The HTTP API and its functions."""

    def __init__(
        self, scope: Construct, config: Config, assets: Assets, identity: IdentityStack | None
    ) -> None:
        """Create it; without an `identity`, the configuration has an issuer in [access]."""
        super().__init__(scope, config, assets, "api", "the HTTP API")
        api = apigatewayv2.HttpApi(
            self,
            "Api",
            api_name=config.name,
            description="Submit and read jobs, operate queues and agents",
            create_default_stage=False,
            # The execute-api endpoint, which asks for no certificate.
            disable_execute_api_endpoint=True if config.domain else None,
        )
        url = f"https://{api.api_id}.execute-api.{self.region}.{self.url_suffix}"
        if config.domain is not None:
            url = f"https://{config.domain.name}"
        if identity is not None:
            self._gate = pool_gate(self, identity, f"{url}{CONSOLE_PATH}")
        elif config.access is not None:
            self._gate = issuer_gate(config, config.access)
        else:
            raise ValueError("without [access] there must be a user pool")
        functions: dict[FunctionName, Function] = {
            "submission": self._submission(),
            "admin": self._admin(),
            "status": self._status(),
        }
        mapping = None
        if config.domain is not None:
            name = MutualTls(self, "Domain", domain=config.domain).name
            mapping = apigatewayv2.DomainMappingOptions(domain_name=name)
        stage = add_stage(
            self,
            config,
            api,
            log_name=access_log_name(config.name),
            subject="$context.authorizer.claims.sub",
            rates={**RATES, **CONSOLE_ROUTES},
            mapping=mapping,
        )
        self._routes(api, functions, stage)
        # Input files go to the bucket itself, by requests that the API signs.
        bucket = f"https://{self.resources.bucket()}.s3.{self.region}.{self.url_suffix}"
        ConsoleFunction(self, assets, api, stage, f"{self._gate.connect} {bucket}")
        if config.notify_rules is not None:
            self._publish("Url", api_parameter_name(config.name), "URL of the API of Joblane", url)
        self._publish(
            "Id", api_id_parameter_name(config.name), "Id of the API of Joblane", api.api_id
        )
        outputs = {"ApiUrl": f"{url}/", "ApiId": api.api_id}
        if identity is not None:
            outputs["UserPoolId"] = identity.pool.user_pool_id
            outputs["TokenUrl"] = identity.token_url
        if config.iam:
            iam = IamApi(self, config, functions)
            outputs |= {"IamApiUrl": iam.url, "IamApiArn": iam.arn}
        for output, value in outputs.items():
            CfnOutput(self, output, value=value)

    def _publish(self, construct_id: str, name: str, description: str, value: str) -> None:
        """Store what other stacks and tools read: the URL is linked to in notifications."""
        ssm.StringParameter(
            self,
            construct_id,
            parameter_name=name,
            description=description,
            string_value=value,
        )

    def _submission(self) -> Function:
        config, resources = self.config, self.resources
        return Function(
            self,
            "submission",
            tables=("jobs", "agents", "audit", "counters", "keys", "output", "settings", "types"),
            environment={
                "JOBLANE_BUCKET": resources.bucket(),
                **self._ids(),
            },
            declared={
                **submitting(config),
                **metrics(config),
                "JOBLANE_ACCESS": self._gate.access,
            },
            grants=[
                table_grant(
                    "PutItem GetItem BatchGetItem UpdateItem DeleteItem BatchWriteItem",
                    resources.table("jobs"),
                ),
                table_grant(
                    "Query",
                    resources.index("jobs", "by_tenant"),
                    resources.index("jobs", "attention"),
                ),
                table_grant("GetItem PutItem", resources.table("keys")),
                table_grant("BatchGetItem", resources.table("settings")),
                table_grant("GetItem", resources.table("counters"), resources.table("types")),
                sending(resources),
                PolicyGrant(("sqs:SendMessage",), (resources.due(),)),
                table_grant("PutItem", resources.table("audit")),
                table_grant("Query", resources.index("audit", "by_job")),
                PolicyGrant(
                    ("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
                    (resources.payloads(),),
                    OBJECTS,
                ),
                # Whether input files are there, with their sizes.
                PolicyGrant(("s3:GetObject",), (resources.files(),), OBJECTS),
                # Output files of a deleted job, found by the prefix of its id.
                PolicyGrant(("s3:DeleteObject",), (resources.output_files(),), OBJECTS),
                PolicyGrant(
                    ("s3:ListBucket",),
                    (resources.bucket_arn(),),
                    conditions={"StringLike": {"s3:prefix": f"{OUTPUTS}*"}},
                ),
                table_grant("BatchWriteItem Query", resources.table("output")),
                PolicyGrant(
                    ("s3:DeleteObject", "s3:GetObject"),
                    (resources.output(), resources.results()),
                    OBJECTS,
                ),
                # Heartbeats have the progress of running jobs, and the labels that targets name.
                table_grant("GetItem BatchGetItem Query", resources.table("agents")),
            ],
        )

    def _admin(self) -> Function:
        config, resources = self.config, self.resources
        return Function(
            self,
            "admin",
            tables=(
                "jobs",
                "agents",
                "audit",
                "conditions",
                "counters",
                "keys",
                "settings",
                "types",
            ),
            environment={
                "JOBLANE_BUCKET": resources.bucket(),
                "JOBLANE_LOGIN": self._gate.login,
                **self._ids(),
            },
            declared={
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_CONCURRENCY": concurrency(config),
                **metrics(config),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_QUEUES": queues(config),
                "JOBLANE_MAXIMA": maxima(config),
                "JOBLANE_FLEET_QUEUES": fleet_queues(config),
                "JOBLANE_WITHOUT_HOST_NETWORK": json.dumps(config.without_host_network),
                "JOBLANE_RETIRED": retired(config),
                "JOBLANE_THREADS": threads(config),
                "JOBLANE_DEADLINES": deadlines(config),
                "JOBLANE_ARCHITECTURES": json.dumps(
                    sorted({fleet.architecture for fleet in config.fleets.values()})
                ),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact(*ADMITTED, "upload_mb_per_day"),
                "JOBLANE_ACCESS": self._gate.access,
            },
            grants=[
                table_grant("BatchGetItem GetItem Query", resources.table("agents")),
                table_grant("BatchGetItem GetItem PutItem UpdateItem", resources.table("types")),
                table_grant("BatchGetItem", resources.table("keys")),
                table_grant("Query", resources.index("keys", "by_type")),
                # PutObject is that of whoever has a signed upload.
                PolicyGrant(
                    ("s3:GetObject", "s3:PutObject"),
                    (resources.bundles(), resources.files()),
                    OBJECTS,
                ),
                table_grant("GetItem Query", resources.table("counters")),
                table_grant(
                    "UpdateItem",
                    resources.table("counters"),
                    conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["uploads/*"]}},
                ),
                table_grant("GetItem PutItem", resources.table("keys")),
                PolicyGrant(("cloudwatch:GetMetricData",), ("*",)),  # it has no resources
                table_grant("PutItem Query", resources.table("audit")),
                table_grant("BatchGetItem DeleteItem PutItem Query", resources.table("conditions")),
                table_grant("BatchGetItem GetItem PutItem", resources.table("settings")),
                # PutItem is for submissions that a restart changes.
                table_grant("GetItem BatchGetItem PutItem UpdateItem", resources.table("jobs")),
                table_grant(
                    "Query",
                    resources.index("jobs", "by_tenant"),
                    resources.index("jobs", "attention"),
                ),
                PolicyGrant(("s3:GetObject", "s3:PutObject"), (resources.payloads(),), OBJECTS),
                sending(resources),
                PolicyGrant(("sqs:GetQueueAttributes",), (resources.lanes(),), LANES),
            ],
        )

    def _status(self) -> Function:
        """It changes no job or setting, so that a fault in it can change none either."""
        config, resources = self.config, self.resources
        return Function(
            self,
            "status",
            tables=("agents", "conditions", "counters", "jobs", "keys", "settings"),
            environment={"JOBLANE_BUCKET": resources.bucket(), **self._ids()},
            declared={
                "JOBLANE_QUEUES": queues(config),
                "JOBLANE_RETIRED": retired(config),
                "JOBLANE_THREADS": threads(config),
                "JOBLANE_MAXIMA": maxima(config),
                "JOBLANE_WITHOUT_HOST_NETWORK": json.dumps(config.without_host_network),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact(*LIMITS),
                "JOBLANE_ACCESS": self._gate.access,
                "JOBLANE_LINKS": json.dumps(config.links),
                "JOBLANE_PRICES": json.dumps(config.prices),
                "JOBLANE_FLEETS": fleets(config),
            },
            grants=[
                table_grant("GetItem Query", resources.table("agents")),
                # PutItem stores hours of counters, which are the same whoever adds them up.
                table_grant("GetItem PutItem Query", resources.table("counters")),
                table_grant("GetItem", resources.table("conditions"), resources.table("keys")),
                table_grant("BatchGetItem GetItem", resources.table("jobs")),
                table_grant("BatchGetItem", resources.table("settings")),
                PolicyGrant(("sqs:GetQueueAttributes",), (resources.lanes(),), LANES),
                # GetObject is that of whoever has a signed download, too.
                PolicyGrant(("s3:GetObject",), (resources.output_files(),), OBJECTS),
                PolicyGrant(
                    (
                        "autoscaling:DescribeAutoScalingGroups",
                        "autoscaling:DescribeScalingActivities",
                    ),
                    ("*",),  # they have no resources
                ),
            ],
        )

    def _ids(self) -> dict[str, str]:
        """Ids that `joblane.aws.environment` puts into what is declared."""
        ids = self._gate.ids.items()
        return {"JOBLANE_IDS": " ".join(f"{name}={value}" for name, value in ids)} if ids else {}

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
                authorizer=authorizer if route.scopes else apigatewayv2.HttpNoneAuthorizer(),
                authorization_scopes=self._gate.scopes(route),
            )
            if not route.scopes:
                acknowledge(added[0], "AwsSolutions-APIG4", OPEN)
            if route.key in RATES:
                stage.node.add_dependency(*added)  # its settings refer to them
