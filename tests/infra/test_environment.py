"""Where the stacks are deployed: the account and region of the credentials, in one partition."""

import json

import pytest

from infra.environment import PARTITION, find_environment
from infra.errors import ConfigError
from tests.infra.synthesis import ROOT


def variables(region: str) -> dict[str, str]:
    return {"CDK_DEFAULT_ACCOUNT": "111122223333", "CDK_DEFAULT_REGION": region}


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1", "xx-new-9"])
def test_the_account_and_region_of_the_credentials_are_used(region: str) -> None:
    environment = find_environment(variables(region))
    assert environment is not None
    assert ("111122223333", region) == (environment.account, environment.region)


@pytest.mark.parametrize("missing", ["CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION"])
def test_without_credentials_the_stacks_are_of_no_account(missing: str) -> None:
    assert find_environment({**variables("eu-west-1"), missing: ""}) is None
    assert find_environment({}) is None


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_a_region_of_another_partition_is_refused(region: str, partition: str) -> None:
    with pytest.raises(ConfigError) as raised:
        find_environment(variables(region))
    assert raised.value.lines == [
        f"{region}: is of the partition {partition}; Joblane runs in the partition aws only"
    ]


def test_the_cdk_is_told_of_that_partition_alone() -> None:
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    assert [PARTITION] == context["@aws-cdk/core:target-partitions"]
