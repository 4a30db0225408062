"""AWS services that functions and agents call; their bundles have the models of no others."""

SERVICES = (
    "autoscaling",
    "cloudwatch",
    "dynamodb",
    "events",
    "lambda",
    "s3",
    "secretsmanager",
    "sns",
    "sqs",
    "ssm",
    "stepfunctions",
)

OF_CREDENTIALS = ("signin", "sso", "sso-oidc", "sts")
"""Services that botocore calls to get credentials, for profiles and web identities."""
