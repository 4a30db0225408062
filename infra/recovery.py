"""The recovery stack: the function that tests conditions, and the machine that paces it."""

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
from joblane.config import Config, recovery_name, recovery_rule_name, table_name


class RecoveryStack(Stack):
    """Everything between a blocked job and its way back into its lane."""

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
            # A layer's ARN ends in its version, so it cannot be found by name, and an export would
            # tie the stacks together: each has a layer of its own.
            layer=core_layer(self, config, assets),
            environment={
                "JOBLANE_DEPLOYMENT": config.name,
                "JOBLANE_JOBS_TABLE": table_name(config.name, "jobs"),
                "JOBLANE_AGENTS_TABLE": table_name(config.name, "agents"),
                "JOBLANE_CONDITIONS_TABLE": table_name(config.name, "conditions"),
                "JOBLANE_QUEUE_URL_PREFIX": resources.queue_url_prefix(),
                "JOBLANE_RECOVERY_ARN": resources.recovery_machine(),
                "JOBLANE_TENANT_QUEUES": json.dumps(_tenant_queues(config)),
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
            # Under vendedlogs the service needs no entry in the account's small log policy.
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
            description="What the recovery state machine may do: call its function, and log",
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
        """Tell the function of executions that failed, so that another goes on.

        Jobs wait for ever on a condition whose execution nobody follows, so an event that could
        not be handed over, or failed every time, goes to `alternate` and an operator hears of it.
        """
        resources = Resources(self, config)
        function.keep_failures(resources.alternate(), retries=2, max_age_s=6 * 3600)
        events.Rule(
            self,
            "Failed",
            rule_name=recovery_rule_name(config.name),
            description="An execution of the recovery state machine ended before its time",
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
    """JSON of the policy of each kind of condition that does not have the default one."""
    chosen = config.recovery.policies
    return json.dumps({kind: policy.model_dump() for kind, policy in chosen.items()})


def _tenant_queues(config: Config) -> dict[str, list[str]]:
    """Queues that each tenant may use: those that name it, and those that name nobody."""
    return {
        tenant: [
            name
            for name, queue in config.queues.items()
            if not queue.tenants or tenant in queue.tenants
        ]
        for tenant in config.tenants
    }
