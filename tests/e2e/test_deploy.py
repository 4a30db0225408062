"""The CDK's command line deploys what the other tests' deployments have, which are made without."""

from contextlib import closing
from pathlib import Path

import boto3

from scripts.local.cloud import Cloud, running_cloud
from tests.e2e.conftest import Http
from tests.support.deployed import submit

TOOLKIT = "CDKToolkit"
"""What `cdk bootstrap` makes."""

Stacks = dict[str, dict[str, tuple[str, str]]]


def stacks(cloud: Cloud) -> Stacks:
    """Type and state of the resources of each stack, by their ids in the template."""
    client = boto3.client("cloudformation", **cloud.ministack.root())
    return {
        stack["StackName"]: {
            each["LogicalResourceId"]: (each["ResourceType"], each["ResourceStatus"])
            for each in client.describe_stack_resources(StackName=stack["StackName"])[
                "StackResources"
            ]
        }
        for stack in client.describe_stacks()["Stacks"]
    }


def test_a_deployment_by_the_command_line_has_the_same_and_takes_jobs(cloud: Cloud, tmp_path: Path):
    with running_cloud(tmp_path / "run") as other:
        deployed = stacks(other)
        assert deployed.pop(TOOLKIT)
        assert stacks(cloud) == deployed
        assert cloud.outputs.keys() == other.outputs.keys()
        with closing(Http(other.url, other.token())) as http:
            submit(http, "true")
