"""AWS services that functions and agents call; their bundles have the models of no others."""

from collections.abc import Mapping
from typing import Final

OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "autoscaling": (
        "CompleteLifecycleAction",
        "DescribeAutoScalingGroups",
        "DescribeScalingActivities",
        "SetDesiredCapacity",
        "SetInstanceHealth",
        "TerminateInstanceInAutoScalingGroup",
    ),
    "cloudwatch": ("GetMetricData",),
    "dynamodb": (
        "BatchGetItem",
        "BatchWriteItem",
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "TransactWriteItems",
        "UpdateItem",
    ),
    "events": ("PutEvents",),
    "lambda": ("Invoke",),
    "s3": (
        "CopyObject",
        "DeleteObject",
        "DeleteObjects",
        "GetObject",
        "HeadBucket",  # botocore asks for a bucket's region when it is redirected
        "HeadObject",
        "ListObjectsV2",
        "PutObject",
    ),
    "secretsmanager": ("GetSecretValue",),
    "sns": ("Publish",),
    "sqs": (
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "CreateQueue",
        "DeleteMessage",
        "DeleteMessageBatch",
        "DeleteQueue",
        "GetQueueAttributes",
        "ListQueues",
        "ReceiveMessage",
        "SendMessage",
        "SendMessageBatch",
    ),
    "ssm": ("GetParameter",),
    "stepfunctions": ("StartExecution",),
}
"""What they call of each service: a client has methods for these alone (`joblane.aws.models`)."""

SERVICES: Final = tuple(OPERATIONS)

OF_CREDENTIALS: Final = ("signin", "sso", "sso-oidc", "sts")
"""Services that botocore calls to get credentials, for profiles and web identities."""
