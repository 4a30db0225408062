"""The recovery stack: the function that tests conditions, and its state machine."""

import json

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from infra.assets import Assets
from infra.function import Function, FunctionStack
from infra.policies import PolicyGrant, acknowledge, give, log_group, table_grant
from infra.recovery_machine import definition
from infra.reserved import RECOVERY_RESERVED
from infra.resources import INBOXES, LANES
from joblane.config import Config
from joblane.deployment.names import recovery_name, recovery_rule_name

TESTER_TIMEOUT_S = 10
"""A test takes up to 4 s, and the look-up of its host's name before it has no limit of its own."""


class RecoveryStack(FunctionStack):
    """The resources that return blocked jobs to their lanes."""

    def __init__(self, scope: Construct, config: Config, assets: Assets) -> None:
        super().__init__(scope, config, assets, "recovery", "recovery of blocked jobs")
        function = self._function(self._tester())
        self._machine(function)
        self._successor(function)

    def _tester(self) -> Function:
        """Connect to the addresses of conditions where nothing can be gained by it."""
        recovery = self.config.recovery
        return Function(
            self,
            "tester",
            environment={},
            declared={
                "JOBLANE_ALLOW_HOSTS": json.dumps(recovery.allow_hosts),
                "JOBLANE_ALLOW_NETWORKS": json.dumps(list(map(str, recovery.allow_networks))),
            },
            grants=None,
            timeout_s=TESTER_TIMEOUT_S,
            reserved=RECOVERY_RESERVED,
        )

    def _function(self, tester: Function) -> Function:
        config, resources = self.config, self.resources
        return Function(
            self,
            "recovery",
            reserved=RECOVERY_RESERVED,
            tables=("jobs", "agents", "conditions"),
            environment={
                "JOBLANE_RECOVERY_ARN": resources.recovery_machine(),
                "JOBLANE_TESTER_FUNCTION": tester.function.function_name,
            },
            declared={
                "JOBLANE_TENANT_QUEUES": json.dumps(
                    {tenant: config.queues_of(tenant) for tenant in config.tenants}
                ),
                "JOBLANE_FLEET_QUEUES": fleet_queues(config),
                "JOBLANE_POLICIES": policies(config),
                "JOBLANE_LIMITS": config.limits_by_tenant.compact("recovery_executions"),
                "JOBLANE_RETENTION": config.retention.model_dump_json(),
            },
            grants=[
                table_grant("GetItem UpdateItem", resources.table("jobs")),
                table_grant("DeleteItem GetItem Query UpdateItem", resources.table("conditions")),
                table_grant("Query", resources.table("agents")),
                PolicyGrant(
                    ("sqs:SendMessage",), (resources.lanes(), resources.alternate()), LANES
                ),
                # Of a job that only one agent may run.
                PolicyGrant(("sqs:SendMessage",), (resources.inboxes(),), INBOXES),
                PolicyGrant(("states:StartExecution",), (resources.recovery_machine(),)),
                PolicyGrant(("lambda:InvokeFunction",), (tester.function.function_arn,)),
            ],
        )

    def _machine(self, function: Function) -> None:
        name = recovery_name(self.config.name)
        # Below /aws/vendedlogs no entry in the account's log resource policy is needed.
        log = log_group(self, "MachineLogs", self.config, f"/aws/vendedlogs/states/{name}")
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
        give(role, [PolicyGrant(("lambda:InvokeFunction",), (arn,))])
        machine = stepfunctions.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            definition_body=stepfunctions.DefinitionBody.from_string(
                json.dumps(definition(arn, self.partition))
            ),
            role=role,
            tracing_enabled=False,  # said, because the default of CloudFormation leaves it as it is
            logs=stepfunctions.LogOptions(
                destination=log,
                level=stepfunctions.LogLevel.ALL,
                include_execution_data=False,
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            "Log deliveries (logs:*LogDelivery and the resource policies) know no resources.",
        )
        acknowledge(
            machine,
            "AwsSolutions-SF2",
            "Jobs are followed by their trace-ids, not by X-Ray (docs/decisions/1731).",
        )

    def _successor(self, function: Function) -> None:
        """Call the function for executions that failed, so that it starts a successor.

        Without a successor jobs would wait for ever, so an event that could not be delivered, or
        failed every time, goes to the queue `alternate` and operators are notified.
        """
        resources = self.resources
        function.keep_failures(resources.alternate(), retries=2, max_age_s=6 * 3600)
        events.Rule(
            self,
            "Failed",
            rule_name=recovery_rule_name(self.config.name),
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


def fleet_queues(config: Config) -> str:
    """JSON of each fleet with the queues that it serves."""
    return json.dumps({name: list(fleet.queues) for name, fleet in config.fleets.items()})


def policies(config: Config) -> str:
    """JSON of the policies that joblane.toml sets, by kind of condition."""
    chosen = config.recovery.policies
    return json.dumps({kind: policy.model_dump() for kind, policy in chosen.items()})
