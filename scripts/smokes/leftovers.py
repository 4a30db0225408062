"""Finds what a deployment has left in an account, and deletes it.

By the deployment's name, which begins every name of its resources; so it also finds what no stack
knows any more: data that was retained, inboxes of agents, what a step of the smoke test made.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from scripts.deploying.protection import Clock, Groups, set_protection
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


def _pages(client: Any, operation: str, path: str, **arguments: Any) -> Iterator[Any]:  # noqa: ANN401
    yield from client.get_paginator(operation).paginate(**arguments).search(f"{path}[]")


def _tables(dynamodb: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    tables = _pages(dynamodb, "list_tables", "TableNames")
    return (table for table in tables if table.startswith(f"{name}-"))


def _delete_table(dynamodb: Any, table: str) -> None:  # noqa: ANN401
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
    dynamodb.get_waiter("table_not_exists").wait(TableName=table)


def _buckets(s3: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    names = (bucket["Name"] for bucket in s3.list_buckets()["Buckets"])
    return (bucket for bucket in names if bucket.startswith(f"{name}-"))


def _delete_bucket(s3: Any, bucket: str) -> None:  # noqa: ANN401
    for each in _pages(s3, "list_objects_v2", "Contents", Bucket=bucket):
        if each is not None:
            s3.delete_object(Bucket=bucket, Key=each["Key"])
    s3.delete_bucket(Bucket=bucket)


def _pools(cognito: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    pools = _pages(cognito, "list_user_pools", "UserPools", MaxResults=60)
    return (pool["Id"] for pool in pools if pool["Name"] == name)


def _delete_pool(cognito: Any, pool: str) -> None:  # noqa: ANN401
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


def _queues(sqs: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    urls = _pages(sqs, "list_queues", "QueueUrls", QueueNamePrefix=f"{name}-")
    return (url for url in urls if url is not None)


def _log_groups(logs: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    for prefix in (
        f"/{name}/",
        f"/aws/lambda/{name}-",
        f"/aws/vendedlogs/{name}/",
        f"/aws/vendedlogs/states/{name}-",
    ):
        groups = _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
        yield from (group["logGroupName"] for group in groups)


def _parameters(ssm: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    found = _pages(ssm, "get_parameters_by_path", "Parameters", Path=f"/{name}", Recursive=True)
    return (parameter["Name"] for parameter in found)


def _secrets(manager: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    secrets = _pages(manager, "list_secrets", "SecretList")
    return (secret["Name"] for secret in secrets if secret["Name"].startswith(f"{name}/"))


def _topics(sns: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    arns = (topic["TopicArn"] for topic in _pages(sns, "list_topics", "Topics"))
    return (arn for arn in arns if arn.rpartition(":")[2].startswith(f"{name}-"))


def _functions(functions: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    found = _pages(functions, "list_functions", "Functions")
    return (f["FunctionName"] for f in found if f["FunctionName"].startswith(f"{name}-"))


def _roles(iam: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    roles = (role["RoleName"] for role in _pages(iam, "list_roles", "Roles"))
    return (role for role in roles if role.startswith(f"{name}-"))


def _delete_role(iam: Any, role: str) -> None:  # noqa: ANN401
    for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        iam.delete_role_policy(RoleName=role, PolicyName=policy)
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName=role)


def _instances(ec2: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    alive = ["pending", "running", "stopping", "stopped"]
    filters = [
        {"Name": "tag:joblane:deployment", "Values": [name]},
        {"Name": "instance-state-name", "Values": alive},
    ]
    reservations = _pages(ec2, "describe_instances", "Reservations", Filters=filters)
    return (i["InstanceId"] for r in reservations for i in r["Instances"])


def _networks(ec2: Any, name: str) -> Iterator[str]:  # noqa: ANN401
    filters = [{"Name": "tag:joblane:deployment", "Values": [name]}]
    return (vpc["VpcId"] for vpc in _pages(ec2, "describe_vpcs", "Vpcs", Filters=filters))


KINDS = (
    Kind(
        "AWS::EC2::Instance",
        "ec2",
        _instances,
        lambda ec2, each: ec2.terminate_instances(InstanceIds=[each]),
    ),
    Kind("AWS::EC2::VPC", "ec2", _networks, lambda ec2, each: ec2.delete_vpc(VpcId=each)),
    Kind("AWS::DynamoDB::Table", "dynamodb", _tables, _delete_table),
    Kind("AWS::S3::Bucket", "s3", _buckets, _delete_bucket),
    Kind("AWS::Cognito::UserPool", "cognito-idp", _pools, _delete_pool),
    Kind("AWS::SQS::Queue", "sqs", _queues, lambda sqs, each: sqs.delete_queue(QueueUrl=each)),
    Kind("AWS::SNS::Topic", "sns", _topics, lambda sns, each: sns.delete_topic(TopicArn=each)),
    Kind(
        "AWS::Lambda::Function",
        "lambda",
        _functions,
        lambda functions, each: functions.delete_function(FunctionName=each),
    ),
    Kind(
        "AWS::Logs::LogGroup",
        "logs",
        _log_groups,
        lambda logs, each: logs.delete_log_group(logGroupName=each),
    ),
    Kind(
        "AWS::SSM::Parameter",
        "ssm",
        _parameters,
        lambda ssm, each: ssm.delete_parameter(Name=each),
    ),
    Kind(
        "AWS::SecretsManager::Secret",
        "secretsmanager",
        _secrets,
        lambda manager, each: manager.delete_secret(SecretId=each, ForceDeleteWithoutRecovery=True),
    ),
    Kind("AWS::IAM::Role", "iam", _roles, _delete_role),
)


def leftovers(aws: Aws, name: str) -> dict[str, list[str]]:
    """Return what there is of a deployment: ids by type, stacks among them."""
    found = {"AWS::CloudFormation::Stack": [stack["StackName"] for stack in stacks(aws, name)]}
    for kind in KINDS:
        found[kind.type] = sorted(set(kind.found(aws(kind.service), name)))
    return {kind: ids for kind, ids in found.items() if ids}


def stacks(aws: Aws, name: str) -> list[dict[str, Any]]:
    """Return the stacks of a deployment that are not deleted, the newest first."""
    found = _pages(aws("cloudformation"), "describe_stacks", "Stacks")
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
    groups = Groups(aws("autoscaling"), name)
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


def _unprotect(groups: Groups) -> None:
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
