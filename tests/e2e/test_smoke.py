"""The smoke test's steps on the local AWS; `scripts/smoke --local` runs all of it by hand."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import boto3
import pytest

from scripts.local.cloud import Cloud
from scripts.local.emulator import Root
from scripts.smokes import access, account
from scripts.smokes.leftovers import leftovers, remove
from scripts.smokes.local_site import LocalSite
from scripts.smokes.runner import Failure, Step
from scripts.smokes.site import Site
from scripts.smokes.steps import STEPS
from tests.e2e.test_roles import ASKED

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CreateBucketConfigurationTypeDef

HERE = [
    replace(step, run=partial(access.table, routes=ASKED)) if step.name == "roles" else step
    for step in STEPS
    if step.missing is None and not step.first
]


@pytest.fixture(name="site", scope="module")
def _site(cloud: Cloud) -> Iterator[LocalSite]:
    """The deployment of all tests, with the smoke test's two agents."""
    site = LocalSite(cloud.run_dir, cloud)
    deploy = next(step for step in STEPS if step.name == "deploy")
    deploy.run(site)
    yield site
    site.remove()


@pytest.mark.parametrize("step", HERE, ids=lambda step: step.name)
def test_a_step_holds_here(site: Site, step: Step):
    step.run(site)


ELSEWHERE: Literal["eu-west-1"] = "eu-west-1"
"""A region without a deployment, next to the one that all tests share."""

THERE: "CreateBucketConfigurationTypeDef" = {"LocationConstraint": ELSEWHERE}


@pytest.fixture(name="bare", scope="module")
def _bare(cloud: Cloud) -> Root:
    """The arguments of a boto3 client for a region in which nothing is bootstrapped or deployed."""
    return {**cloud.ministack.root(), "region_name": ELSEWHERE}


STACK = """
Resources:
  Lane: {Type: AWS::SQS::Queue, Properties: {QueueName: smoke-1-default}}
  Jobs:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      TableName: smoke-1-jobs
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
      DeletionProtectionEnabled: true
  Fleet:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      AutoScalingGroupName: smoke-1-main
      NewInstancesProtectedFromScaleIn: true
      MinSize: 60
      MaxSize: 60
      Tags: [{Key: "joblane:deployment", Value: smoke-1, PropagateAtLaunch: true}]
"""
"""The group has more instances than one call may name."""


def fill(aws: Callable[..., Any], name: str) -> None:
    """Make a thing of every kind that a run may leave."""
    aws("sqs").create_queue(QueueName=f"{name}-inbox-i-01")
    aws("s3").create_bucket(Bucket=f"{name}-bucket", CreateBucketConfiguration=THERE)
    aws("s3").put_object(Bucket=f"{name}-bucket", Key="a/b", Body=b"c")
    aws("cognito-idp").create_user_pool(PoolName=name, DeletionProtection="ACTIVE")
    aws("sns").create_topic(Name=f"{name}-dead-letters")
    aws("logs").create_log_group(logGroupName=f"/aws/lambda/{name}-admin")
    aws("ssm").put_parameter(Name=f"/{name}/main/smoke", Value="x", Type="SecureString")
    aws("secretsmanager").create_secret(Name=f"{name}/main/smoke", SecretString="x")
    aws("iam").create_role(RoleName=f"{name}-role", AssumeRolePolicyDocument="{}")


def test_the_removal_deletes_all_that_has_the_name_and_nothing_else(bare: Root):
    aws = partial(boto3.client, **bare)
    aws("cloudformation").create_stack(StackName="smoke-1-data", TemplateBody=STACK)
    for name in ("smoke-1", "smoke-10"):
        fill(aws, name)
    other = leftovers(aws, "smoke-10")
    found = leftovers(aws, "smoke-1")
    assert {"AWS::CloudFormation::Stack": ["smoke-1-data"]}.items() <= found.items()
    assert {"AWS::DynamoDB::Table": ["smoke-1-jobs"]}.items() <= found.items()
    assert set(other) < set(found)
    assert {} == remove(aws, "smoke-1")
    assert other == leftovers(aws, "smoke-10")


def test_the_preflight_refuses_an_account_that_is_not_ready(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    here = {"AWS_REGION": ELSEWHERE, "AWS_DEFAULT_REGION": ELSEWHERE}
    for name, value in {**cloud.ministack.environment(), **here}.items():
        monkeypatch.setenv(name, value)
    site = account.AccountSite("smoke-2", tmp_path)
    site.aws("s3").create_bucket(Bucket="smoke-2-bucket", CreateBucketConfiguration=THERE)
    with pytest.raises(Failure) as refused:
        site.check()
    assert "is not bootstrapped for the CDK: scripts/cdk bootstrap" in str(refused.value)
    assert "AWS::S3::Bucket of that name: smoke-2-bucket" in str(refused.value)
