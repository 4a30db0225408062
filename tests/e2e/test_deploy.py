"""The CDK's command line deploys what the other tests' deployments have, which are made without."""

from contextlib import closing
from pathlib import Path

import boto3
import pytest

from scripts.local import deploy
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.progress import quiet_step
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


@pytest.mark.deep
def test_what_runs_is_deployed_again_with_another_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As `scripts/up` does after a change of scripts/local/joblane.toml."""
    with running_cloud(tmp_path / "run") as other:
        with closing(Http(other.url, other.token())) as http:
            before = submit(http, "true")
        text = deploy.local_config("x86_64")
        changed = text.replace('["default", "bulk"]', '["default", "bulk", "added"]')
        changed = changed.replace("[queues.bulk]", "[queues.added]\n\n[queues.bulk]")
        monkeypatch.setattr(deploy, "local_config", lambda _machine: changed)

        other.outputs = deploy.deploy_again(other.ministack, other.run_dir, quiet_step)

        with closing(Http(other.url, other.token())) as http:
            assert "pending" == http("GET", f"/v1/jobs/{before}").json()["state"]
            job = {"command": ["true"], "queue": "added"}
            assert 202 == http("POST", "/v1/jobs", json=job).status_code
