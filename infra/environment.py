"""The account and region that the CDK CLI deploys to, from its environment variables."""

from collections.abc import Mapping

from aws_cdk import Environment
from aws_cdk.region_info import RegionInfo

from infra.errors import ConfigError

PARTITION = "aws"
"""Partition of AWS that Joblane is made for. Others lack services (China: Cognito user pools) or
have other names of service principals, and nothing of it has been tried there."""


def find_environment(variables: Mapping[str, str]) -> Environment | None:
    """The account and region of the credentials that the CDK CLI has found, if any.

    Raises ConfigError for a region of another partition.
    """
    account, region = (variables.get(f"CDK_DEFAULT_{name}") for name in ("ACCOUNT", "REGION"))
    if not account or not region:
        return None
    partition = RegionInfo.get(region).partition
    if partition not in (PARTITION, None):  # None: newer than this CDK
        raise ConfigError(
            [f"{region}: is of the partition {partition}; Joblane runs in the partition aws only"]
        )
    return Environment(account=account, region=region)
