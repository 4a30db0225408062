"""The recovery stack: the function that tests conditions, and its state machine."""

import json

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from infra.assets import Assets
from infra.function import Function, Grant, core_layer
from infra.policies import acknowledge, log_retention, removal
from infra.recovery_machine import definition
from infra.resources import Resources
from joblane.config import Config
from joblane.deployment.names import recovery_name, recovery_rule_name, table_name


class RecoveryStack(Stack):
    """The resources that return blocked jobs to their lanes."""

    def __init__(
        self, scope: Construct, construct_id: str, *, config: Config, assets: Assets
    ) -> None:
        super().__init__(scope, construct_id, description="Joblane: recovery of blocked jobs")
        function = self._function(config, assets)
        self._machine(config, function)
        self._successor(config, function)

    def _function(self, config: Config, assets: Assets) -> Function:
        resources = Resources(self, config)
        return Function(
            self,
            "recovery",
            config=config,
            code=assets.functions / "recovery",
            # A layer's ARN ends in its version, so it has no fixed name, and an export would couple
            # the stacks: each has its own layer.
            layer=core_layer(self, config, assets),
            environment={
                "JOBLANE_DEPLOYMENT": config.name,
                "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
                "JOBLANE_AGENTS_TABLE": table_name(config.name, "agents"),
                "JOBLANE_CONDITIONS_TABLE": table_name(config.name, "conditions"),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_RECOVERY_ARN": resources.recovery_machine(),
                "JOBLANE_TENANT_QUEUES": json.dumps(
                    {tenant: config.queues_of(tenant) for tenant in config.tenants}
                ),
                "JOBLANE_FLEET_QUEUES": json.dumps(
                    {name: list(fleet.queues) for name, fleet in config.fleets.items()}
                ),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_ALLOW_NETWORKS": json.dumps(
                    [str(network) for network in config.recovery.allow_networks]
                ),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
            },
            grants=[
                Grant(("dynamodb:GetItem", "dynamodb:UpdateItem"), (resources.table("jobs"),)),
                Grant(
                    (
                        "dynamodb:DeleteItem",
                        "dynamodb:GetItem",
                        "dynamodb:Query",
                        "dynamodb:UpdateItem",
                    ),
                    (resources.table("conditions"),),
                ),
                Grant(("dynamodb:Query",), (resources.table("agents"),)),
                Grant(
                    ("sqs:SendMessage",),
                    (*resources.lanes(config.queues), resources.alternate()),
                ),
                Grant(("states:StartExecution",), (resources.recovery_machine(),)),
            ],
        )

    def _machine(self, config: Config, function: Function) -> None:
        name = recovery_name(config.name)
        log_group = logs.LogGroup(
            self,
            "MachineLogs",
            # Below /aws/vendedlogs no entry in the account's log resource policy is needed.
            log_group_name=f"/aws/vendedlogs/states/{name}",
            retention=log_retention(config),
            removal_policy=removal(config),
        )
        role = iam.Role(
            self,
            "MachineRole",
            assumed_by=iam.ServicePrincipal(
                "states.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            ),
            description="Permissions of the recovery state machine: call its function, and log",
        )
        arn = function.function.function_arn
        role.add_to_policy(Grant(("lambda:InvokeFunction",), (arn,)).statement())
        stepfunctions.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            definition_body=stepfunctions.DefinitionBody.from_string(
                json.dumps(definition(arn, self.partition))
            ),
            role=role,
            tracing_enabled=True,
            logs=stepfunctions.LogOptions(
                destination=log_group,
                level=stepfunctions.LogLevel.ALL,
                include_execution_data=False,
            ),
            removal_policy=removal(config),
        )
        acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            "Log deliveries (logs:*LogDelivery and the resource policies) and X-Ray's segments "
            "know no resources.",
        )

    def _successor(self, config: Config, function: Function) -> None:
        """Call the function for executions that failed, so that it starts a successor.

        Without a successor jobs would wait for ever, so an event that could not be delivered, or
        failed every time, goes to the queue `alternate` and operators are notified.
        """
        resources = Resources(self, config)
        function.keep_failures(resources.alternate(), retries=2, max_age_s=6 * 3600)
        events.Rule(
            self,
            "Failed",
            rule_name=recovery_rule_name(config.name),
            description="An execution of the recovery state machine failed or was stopped",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                    "stateMachineArn": [resources.recovery_machine()],
                },
            ),
            targets=[
                targets.LambdaFunction(
                    function.function,
                    max_event_age=Duration.hours(24),
                    dead_letter_queue=sqs.Queue.from_queue_arn(
                        self, "Alternate", resources.alternate()
                    ),
                )
            ],
        )


def policies(config: Config) -> str:
    """JSON of the policies that joblane.toml sets, by kind of condition."""
    chosen = config.recovery.policies
    return json.dumps({kind: policy.model_dump() for kind, policy in chosen.items()})
