"""What there is in an account whose name begins with that of a deployment, by kind.

Each function yields ids, or what else its service deletes by.
"""

from collections.abc import Iterator
from typing import Any

from joblane.deployment.names import DEPLOYMENT_TAG


def pages(client: Any, operation: str, path: str, **arguments: Any) -> Iterator[Any]:
    """Yield the rows of all pages of an operation."""
    yield from client.get_paginator(operation).paginate(**arguments).search(f"{path}[]")


def tables(dynamodb: Any, name: str) -> Iterator[str]:
    """Names of tables."""
    tables = pages(dynamodb, "list_tables", "TableNames")
    return (table for table in tables if table.startswith(f"{name}-"))


def buckets(s3: Any, name: str) -> Iterator[str]:
    """Names of buckets."""
    names = (bucket["Name"] for bucket in s3.list_buckets()["Buckets"])
    return (bucket for bucket in names if bucket.startswith(f"{name}-"))


def pools(cognito: Any, name: str) -> Iterator[str]:
    """Ids of user pools with exactly this name."""
    pools = pages(cognito, "list_user_pools", "UserPools", MaxResults=60)
    return (pool["Id"] for pool in pools if pool["Name"] == name)


def queues(sqs: Any, name: str) -> Iterator[str]:
    """URLs of queues."""
    urls = pages(sqs, "list_queues", "QueueUrls", QueueNamePrefix=f"{name}-")
    return (url for url in urls if url is not None)


def log_groups(logs: Any, name: str) -> Iterator[str]:
    """Names of log groups."""
    for prefix in (
        f"/{name}/",
        f"/aws/lambda/{name}-",
        f"/aws/vendedlogs/{name}/",
        f"/aws/vendedlogs/states/{name}-",
    ):
        groups = pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
        yield from (group["logGroupName"] for group in groups)


def parameters(ssm: Any, name: str) -> Iterator[str]:
    """Names of parameters."""
    found = pages(ssm, "get_parameters_by_path", "Parameters", Path=f"/{name}", Recursive=True)
    return (parameter["Name"] for parameter in found)


def secrets(manager: Any, name: str) -> Iterator[str]:
    """Names of secrets."""
    secrets = pages(manager, "list_secrets", "SecretList")
    return (secret["Name"] for secret in secrets if secret["Name"].startswith(f"{name}/"))


def topics(sns: Any, name: str) -> Iterator[str]:
    """ARNs of topics."""
    arns = (topic["TopicArn"] for topic in pages(sns, "list_topics", "Topics"))
    return (arn for arn in arns if arn.rpartition(":")[2].startswith(f"{name}-"))


def functions(functions: Any, name: str) -> Iterator[str]:
    """Names of functions."""
    found = pages(functions, "list_functions", "Functions")
    return (f["FunctionName"] for f in found if f["FunctionName"].startswith(f"{name}-"))


def roles(iam: Any, name: str) -> Iterator[str]:
    """Names of roles."""
    roles = (role["RoleName"] for role in pages(iam, "list_roles", "Roles"))
    return (role for role in roles if role.startswith(f"{name}-"))


def instances(ec2: Any, name: str) -> Iterator[str]:
    """Ids of instances that have not ended, by their tag."""
    alive = ["pending", "running", "stopping", "stopped"]
    filters = [
        {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [name]},
        {"Name": "instance-state-name", "Values": alive},
    ]
    reservations = pages(ec2, "describe_instances", "Reservations", Filters=filters)
    return (i["InstanceId"] for r in reservations for i in r["Instances"])


def networks(ec2: Any, name: str) -> Iterator[str]:
    """Ids of VPCs, by their tag."""
    filters = [{"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [name]}]
    return (vpc["VpcId"] for vpc in pages(ec2, "describe_vpcs", "Vpcs", Filters=filters))


def groups(autoscaling: Any, name: str) -> Iterator[str]:
    """Names of Auto Scaling groups."""
    found = pages(autoscaling, "describe_auto_scaling_groups", "AutoScalingGroups")
    named = (group["AutoScalingGroupName"] for group in found if group is not None)
    return (group for group in named if group.startswith(f"{name}-"))
