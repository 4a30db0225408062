"""Helpers of all stacks: removal policy, log groups, grants, acknowledged cdk-nag rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import Acknowledgment, RemovalPolicy, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from infra.resources import INBOXES, LANES, ResourceArns
from joblane.config import Config


@dataclass(frozen=True)
class PolicyGrant:
    """Actions on resources, for a role."""

    actions: Sequence[str]
    resources: Sequence[str]
    reason: str = ""
    """Why the resources contain a pattern; of actions that know no resources it is not needed."""
    conditions: Mapping[str, Mapping[str, object]] | None = None


def table_grant(
    actions: str, *arns: str, conditions: Mapping[str, Mapping[str, object]] | None = None
) -> PolicyGrant:
    """Actions of DynamoDB, as `GetItem PutItem`, on tables or indexes."""
    return PolicyGrant(
        [f"dynamodb:{action}" for action in actions.split()], arns, conditions=conditions
    )


def sending(resources: ResourceArns) -> PolicyGrant:
    """Send messages to every lane and inbox."""
    arns = (resources.lanes(), resources.inboxes())
    return PolicyGrant(("sqs:SendMessage",), arns, f"{LANES} {INBOXES}")


def delivering(queue_arn: str) -> PolicyGrant:
    """What Lambda needs to deliver a queue's messages to a function, with the function's role."""
    actions = ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    return PolicyGrant([f"sqs:{action}" for action in actions], (queue_arn,))


def give(role: iam.Role, grants: Iterable[PolicyGrant]) -> None:
    """Add grants to a role's policy, and acknowledge their patterns of ARNs."""
    for grant in grants:
        role.add_to_policy(
            iam.PolicyStatement(
                actions=list(grant.actions),
                resources=list(grant.resources),
                conditions=grant.conditions,
            )
        )
        for arn in grant.resources:
            if arn == "*":
                reason = f"{', '.join(grant.actions)}: IAM knows no resources of it."
                acknowledge(role, "AwsSolutions-IAM5[Resource::*]", reason)
            elif grant.reason and "*" in arn:
                found = Stack.of(role).resolve(arn)
                parts = [found] if isinstance(found, str) else found["Fn::Join"][1]
                shown = (part if isinstance(part, str) else f"<{part['Ref']}>" for part in parts)
                rule = f"AwsSolutions-IAM5[Resource::{''.join(shown)}]"
                acknowledge(role, rule, grant.reason)


def removal(config: Config) -> RemovalPolicy:
    """Return the removal policy of what holds data; all else is deleted with its stack.

    Retained data outlives its stack, but not a creation that is rolled back: it is empty, and its
    fixed name would block the next deployment (docs/decisions/1211).
    """
    if config.removal == "retain":
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return RemovalPolicy.DESTROY


def log_group(scope: Construct, construct_id: str, config: Config, name: str) -> logs.LogGroup:
    """Create a log group with the retention of this deployment; it is deleted with its stack."""
    group = logs.LogGroup(
        scope, construct_id, log_group_name=name, removal_policy=RemovalPolicy.DESTROY
    )
    # The construct takes a name for each number of days.
    resource = cast("logs.CfnLogGroup", group.node.default_child)
    resource.retention_in_days = config.retention.logs_days
    return group


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge a cdk-nag rule for one construct, with the reason."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))
