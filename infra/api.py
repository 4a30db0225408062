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
from infra.console import Console
from infra.declared import fleets, maxima
from infra.domain import MutualTls
from infra.function import Function, FunctionStack, concurrency
from infra.iam_api import IamApi
from infra.identity import IdentityStack
from infra.notify import notify_rules
from infra.policies import Grant, acknowledge
from infra.recovery import fleet_queues, policies
from infra.resources import INBOXES, LANES, OBJECTS
from infra.stage import add_stage
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
        Console(self, assets, api, stage, self._gate.connect)
        if config.notify_rules is not None:
            self._publish(url)
        ssm.StringParameter(
            self,
            "Id",
            parameter_name=api_id_parameter_name(config.name),
            description="Id of the API of Joblane",
            string_value=api.api_id,
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

    def _publish(self, url: str) -> None:
        """Store the URL of the API for notifications, which link to it, in another stack."""
        ssm.StringParameter(
            self,
            "Url",
            parameter_name=api_parameter_name(self.config.name),
            description="URL of the API of Joblane",
            string_value=url,
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
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_MAXIMA": maxima(config),
                "JOBLANE_FLEET_QUEUES": fleet_queues(config),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact(*ADMITTED, "input_mb_per_job"),
                "JOBLANE_DEFAULT_QUEUE": config.default_queue,
                "JOBLANE_FILTERS": json.dumps(config.filters),
                "JOBLANE_CONCURRENCY": concurrency(config),
                "JOBLANE_NOTIFY": notify_rules(config),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
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
                        "dynamodb:BatchWriteItem",
                    ),
                    (resources.table("jobs"),),
                ),
                Grant(
                    ("dynamodb:Query",),
                    (resources.index("jobs", "by_tenant"), resources.index("jobs", "attention")),
                ),
                Grant(("dynamodb:GetItem", "dynamodb:PutItem"), (resources.table("keys"),)),
                Grant(("dynamodb:BatchGetItem",), (resources.table("settings"),)),
                Grant(
                    ("dynamodb:GetItem",), (resources.table("counters"), resources.table("types"))
                ),
                Grant(
                    ("sqs:SendMessage",),
                    (resources.lanes(), resources.inboxes()),
                    f"{LANES} {INBOXES}",
                ),
                Grant(("dynamodb:PutItem",), (resources.table("audit"),)),
                Grant(("dynamodb:Query",), (resources.index("audit", "by_job"),)),
                Grant(
                    ("s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
                    (resources.payloads(),),
                    OBJECTS,
                ),
                # Whether input files are there, with their sizes.
                Grant(("s3:GetObject",), (resources.files(),), OBJECTS),
                # Output files of a deleted job, found by the prefix of its id.
                Grant(("s3:DeleteObject",), (resources.output_files(),), OBJECTS),
                Grant(
                    ("s3:ListBucket",),
                    (resources.bucket_arn(),),
                    conditions={"StringLike": {"s3:prefix": f"{OUTPUTS}*"}},
                ),
                Grant(("dynamodb:BatchWriteItem", "dynamodb:Query"), (resources.table("output"),)),
                Grant(
                    ("s3:DeleteObject", "s3:GetObject"),
                    (resources.output(), resources.results()),
                    OBJECTS,
                ),
                # Heartbeats have the progress of running jobs, and the labels that targets name.
                Grant(
                    ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"),
                    (resources.table("agents"),),
                ),
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
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_THREADS": self._threads(),
                "JOBLANE_ARCHITECTURES": json.dumps(
                    sorted({fleet.architecture for fleet in config.fleets.values()})
                ),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact(*ADMITTED, "upload_mb_per_day"),
                "JOBLANE_ACCESS": self._gate.access,
            },
            grants=[
                Grant(
                    ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"),
                    (resources.table("agents"),),
                ),
                Grant(
                    (
                        "dynamodb:BatchGetItem",
                        "dynamodb:GetItem",
                        "dynamodb:PutItem",
                        "dynamodb:UpdateItem",
                    ),
                    (resources.table("types"),),
                ),
                Grant(("dynamodb:BatchGetItem",), (resources.table("keys"),)),
                Grant(("dynamodb:Query",), (resources.index("keys", "by_type"),)),
                # PutObject is that of whoever has a signed upload.
                Grant(
                    ("s3:GetObject", "s3:PutObject"),
                    (resources.bundles(), resources.files()),
                    OBJECTS,
                ),
                Grant(("dynamodb:GetItem", "dynamodb:Query"), (resources.table("counters"),)),
                Grant(
                    ("dynamodb:UpdateItem",),
                    (resources.table("counters"),),
                    conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["uploads/*"]}},
                ),
                Grant(("dynamodb:GetItem", "dynamodb:PutItem"), (resources.table("keys"),)),
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
                Grant(
                    ("sqs:SendMessage",),
                    (resources.lanes(), resources.inboxes()),
                    f"{LANES} {INBOXES}",
                ),
                Grant(("sqs:GetQueueAttributes",), (resources.lanes(),), LANES),
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
                "JOBLANE_QUEUES": self._queues(),
                "JOBLANE_THREADS": self._threads(),
                "JOBLANE_MAXIMA": maxima(config),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact(*LIMITS),
                "JOBLANE_ACCESS": self._gate.access,
                "JOBLANE_LINKS": json.dumps(config.links),
                "JOBLANE_PRICES": json.dumps(config.prices),
                "JOBLANE_FLEETS": fleets(config),
            },
            grants=[
                Grant(("dynamodb:GetItem", "dynamodb:Query"), (resources.table("agents"),)),
                # PutItem stores hours of counters, which are the same whoever adds them up.
                Grant(
                    ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"),
                    (resources.table("counters"),),
                ),
                Grant(
                    ("dynamodb:GetItem",), (resources.table("conditions"), resources.table("keys"))
                ),
                Grant(("dynamodb:BatchGetItem", "dynamodb:GetItem"), (resources.table("jobs"),)),
                Grant(("dynamodb:BatchGetItem",), (resources.table("settings"),)),
                Grant(("sqs:GetQueueAttributes",), (resources.lanes(),), LANES),
                # GetObject is that of whoever has a signed download, too.
                Grant(("s3:GetObject",), (resources.output_files(),), OBJECTS),
                Grant(
                    (
                        "autoscaling:DescribeAutoScalingGroups",
                        "autoscaling:DescribeScalingActivities",
                    ),
                    ("*",),  # they have no resources
                ),
            ],
        )

    def _ids(self) -> dict[str, str]:
        """Ids that `joblane.aws.lambda_startup` puts into what is declared."""
        ids = self._gate.ids.items()
        return {"JOBLANE_IDS": " ".join(f"{name}={value}" for name, value in ids)} if ids else {}

    def _queues(self) -> str:
        """JSON of each queue with the tenants that may use it; none means all."""
        return json.dumps({name: list(queue.tenants) for name, queue in self.config.queues.items()})

    def _threads(self) -> str:
        """JSON of each queue with what joblane.toml declares as its threads."""
        return json.dumps({name: queue.threads for name, queue in self.config.queues.items()})

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
