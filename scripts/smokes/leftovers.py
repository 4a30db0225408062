"""Finds what a deployment has left in an account, and deletes it.

By the deployment's name, which begins every name of its resources; so it also finds what no stack
knows any more: data that was retained, inboxes of agents, what a step of the smoke test made.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from scripts.deploying import existing
from scripts.deploying.protection import Clock, DeployedGroups, set_protection
from scripts.smokes.site import wait_until

Aws = Callable[..., Any]
"""Makes a client of the service that it is given."""

STACK_S = 1800
"""A fleet's stack ends its instances, which takes some minutes."""


@dataclass(frozen=True)
class Kind:
    """A kind of resource, by its type in CloudFormation."""

    type: str
    service: str
    found: Callable[[Any, str], Iterator[str]]
    """Yields the ids of a deployment's."""
    delete: Callable[[Any, str], None]


def _delete_table(dynamodb: Any, table: str) -> None:
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
    dynamodb.get_waiter("table_not_exists").wait(TableName=table)


def _delete_bucket(s3: Any, bucket: str) -> None:
    for each in existing.pages(s3, "list_objects_v2", "Contents", Bucket=bucket):
        if each is not None:
            s3.delete_object(Bucket=bucket, Key=each["Key"])
    s3.delete_bucket(Bucket=bucket)


def _delete_pool(cognito: Any, pool: str) -> None:
    described = cognito.describe_user_pool(UserPoolId=pool)["UserPool"]
    if described.get("Domain"):
        cognito.delete_user_pool_domain(UserPoolId=pool, Domain=described["Domain"])
    if described.get("DeletionProtection") == "ACTIVE":
        cognito.update_user_pool(
            UserPoolId=pool,
            DeletionProtection="INACTIVE",
            MfaConfiguration=described.get("MfaConfiguration", "OFF"),
        )
    cognito.delete_user_pool(UserPoolId=pool)


def _delete_role(iam: Any, role: str) -> None:
    for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        iam.delete_role_policy(RoleName=role, PolicyName=policy)
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName=role)


KINDS = (
    Kind(
        "AWS::EC2::Instance",
        "ec2",
        existing.instances,
        lambda ec2, each: ec2.terminate_instances(InstanceIds=[each]),
    ),
    Kind("AWS::EC2::VPC", "ec2", existing.networks, lambda ec2, each: ec2.delete_vpc(VpcId=each)),
    Kind("AWS::DynamoDB::Table", "dynamodb", existing.tables, _delete_table),
    Kind("AWS::S3::Bucket", "s3", existing.buckets, _delete_bucket),
    Kind("AWS::Cognito::UserPool", "cognito-idp", existing.pools, _delete_pool),
    Kind(
        "AWS::SQS::Queue", "sqs", existing.queues, lambda sqs, each: sqs.delete_queue(QueueUrl=each)
    ),
    Kind(
        "AWS::SNS::Topic", "sns", existing.topics, lambda sns, each: sns.delete_topic(TopicArn=each)
    ),
    Kind(
        "AWS::Lambda::Function",
        "lambda",
        existing.functions,
        lambda functions, each: functions.delete_function(FunctionName=each),
    ),
    Kind(
        "AWS::Logs::LogGroup",
        "logs",
        existing.log_groups,
        lambda logs, each: logs.delete_log_group(logGroupName=each),
    ),
    Kind(
        "AWS::SSM::Parameter",
        "ssm",
        existing.parameters,
        lambda ssm, each: ssm.delete_parameter(Name=each),
    ),
    Kind(
        "AWS::SecretsManager::Secret",
        "secretsmanager",
        existing.secrets,
        lambda manager, each: manager.delete_secret(SecretId=each, ForceDeleteWithoutRecovery=True),
    ),
    Kind("AWS::IAM::Role", "iam", existing.roles, _delete_role),
)


def leftovers(aws: Aws, name: str) -> dict[str, list[str]]:
    """Return what there is of a deployment: ids by type, stacks among them."""
    found = {"AWS::CloudFormation::Stack": [stack["StackName"] for stack in stacks(aws, name)]}
    for kind in KINDS:
        found[kind.type] = sorted(set(kind.found(aws(kind.service), name)))
    return {kind: ids for kind, ids in found.items() if ids}


def stacks(aws: Aws, name: str) -> list[dict[str, Any]]:
    """Return the stacks of a deployment that are not deleted, the newest first."""
    found = existing.pages(aws("cloudformation"), "describe_stacks", "Stacks")
    mine = [
        stack
        for stack in found
        if stack["StackName"].startswith(f"{name}-") and stack["StackStatus"] != "DELETE_COMPLETE"
    ]
    return sorted(mine, key=lambda stack: stack["CreationTime"], reverse=True)


def delete_stacks(aws: Aws, name: str) -> None:
    """Delete a deployment's stacks, whatever they are doing; the newest first, as they depend.

    CloudFormation waits for instances that are protected from scale-in, also when it rolls back.
    Their protection is removed at once, and again when a stack is ready: it may have made a group.
    """
    cloudformation = aws("cloudformation")
    groups = DeployedGroups(aws("autoscaling"), name)
    _unprotect(groups)
    for stack in stacks(aws, name):
        own = stack["StackName"]

        def status(own: str = own) -> str:
            try:
                found = cloudformation.describe_stacks(StackName=own)["Stacks"]
            except ClientError as error:
                if "does not exist" in str(error):
                    return "DELETE_COMPLETE"
                raise
            return str(found[0]["StackStatus"]) if found else "DELETE_COMPLETE"

        if status() == "UPDATE_IN_PROGRESS":  # a stack that is updated cannot be deleted
            cloudformation.cancel_update_stack(StackName=own)
        wait_until(
            f"the stack {own} is created, updated or rolled back",
            lambda status=status: (  # type: ignore[misc]
                status().startswith("DELETE_") or status().endswith(("_COMPLETE", "_FAILED"))
            ),
            STACK_S,
        )
        _unprotect(groups)
        cloudformation.delete_stack(StackName=own)
        wait_until(
            f"the stack {own} is deleted",
            lambda status=status: status() in ("DELETE_COMPLETE", "DELETE_FAILED"),  # type: ignore[misc]
            STACK_S,
        )


def _unprotect(groups: DeployedGroups) -> None:
    names = [group.name for group in groups.read()]
    set_protection(groups, names, protected=False, clock=Clock())


def remove(aws: Aws, name: str) -> dict[str, list[str]]:
    """Delete everything of a deployment; returns what is left."""
    delete_stacks(aws, name)
    for kind in KINDS:
        client = aws(kind.service)
        for each in sorted(set(kind.found(client, name))):
            try:
                kind.delete(client, each)
            except ClientError as error:
                print(f"{kind.type} {each}: {error}")
    deadline = time.monotonic() + 120  # some lists are a minute late
    while (left := leftovers(aws, name)) and time.monotonic() < deadline:
        time.sleep(5)
    return left
