"""A deleted stack leaves data and nothing else, and the next deployment can adopt it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Environment
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from infra.data import TABLES, DataStack
from joblane.deployment.names import DEPLOYMENT_TAG, fleet_stack_name
from tests.infra.synthesis import ROOT, Deployment, Resource, new_app, read_templates

KEPT = {
    "AWS::Cognito::UserPool": "people and their second factors",
    "AWS::DynamoDB::Table": "jobs and their output, the audit trail, settings",
    "AWS::S3::Bucket": "large submissions and output, and the log of who read them",
}
"""Types that hold data, and what: production keeps them."""

DELETED = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::AutoScaling::LifecycleHook",
    "AWS::CloudFormation::WaitConditionHandle",
    "AWS::CloudWatch::Alarm",
    "AWS::Cognito::UserPoolClient",  # of a machine, which goes with it
    "AWS::Cognito::UserPoolDomain",
    "AWS::Cognito::UserPoolGroup",  # of a tenant, which goes with it
    "AWS::Cognito::UserPoolResourceServer",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::LaunchTemplate",
    "AWS::EC2::Route",
    "AWS::EC2::RouteTable",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCEndpoint",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::Events::Rule",
    "AWS::IAM::InstanceProfile",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",  # of functions, requests and executions; what was done is in `audit`
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::Queue",  # messages are wake-ups: `joblane requeue` sends new ones
    "AWS::SQS::QueuePolicy",
    "AWS::SSM::Association",
    "AWS::SSM::Document",
    "AWS::SSM::Parameter",
    "AWS::StepFunctions::StateMachine",
}
"""Every other type. A new type belongs here or into KEPT."""

BY_HAND = {"AWS::Cognito::UserPool": "UserPoolId"}
"""Types that CloudFormation cannot find by a name, with what `cdk import` is told."""

DEPLOY = ROOT / "docs/how-to/deploy.md"


def policies(resource: Resource) -> tuple[str, str]:
    """What becomes of a resource that leaves its stack, and of one that is replaced."""
    return (
        resource.get("DeletionPolicy", "Delete"),
        resource.get("UpdateReplacePolicy", "Delete"),
    )


def every(deployment: Deployment) -> list[tuple[str, Resource]]:
    return [
        (f"{stack}/{logical_id}", resource)
        for stack, template in deployment.templates.items()
        for logical_id, resource in template["Resources"].items()
    ]


def test_every_type_is_known(production: Deployment, laptop: Deployment) -> None:
    used = {r["Type"] for each in (production, laptop) for _, r in every(each)}
    assert used == KEPT.keys() | DELETED


def test_production_keeps_data_and_nothing_else(production: Deployment) -> None:
    for name, resource in every(production):
        kept = ("RetainExceptOnCreate", "Retain")
        wanted = kept if resource["Type"] in KEPT else ("Delete", "Delete")
        assert (name, wanted) == (name, policies(resource))


def test_production_guards_tables_against_deletion(production: Deployment) -> None:
    for table in production.properties("AWS::DynamoDB::Table"):
        assert table["DeletionProtectionEnabled"] is True
        recovers = table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        assert recovers is (table["TableName"] != "joblane-output")  # which is only added to


def test_a_domain_that_is_taken_leaves_no_user_pool_and_one_that_is_ours_guards_it(
    production: Deployment,
) -> None:
    """CloudFormation creates the pool first, since its domain names it, and rolls it back."""
    ((name, pool),) = production.resources("AWS::Cognito::UserPool", "identity").items()
    assert "RetainExceptOnCreate" == pool["DeletionPolicy"]
    # The rollback could not delete a protected one.
    assert "ACTIVE" != pool["Properties"].get("DeletionProtection")
    # Cognito deletes no pool that has a domain.
    assert {"Ref": name} == production.one("AWS::Cognito::UserPoolDomain")["UserPoolId"]


def test_a_laptop_deletes_everything(laptop: Deployment) -> None:
    for name, resource in every(laptop):
        assert (name, ("Delete", "Delete")) == (name, policies(resource))
    for table in laptop.properties("AWS::DynamoDB::Table"):
        assert table.get("DeletionProtectionEnabled", False) is False


def test_a_failure_of_another_resource_rolls_back_no_protected_table(
    production: Deployment,
) -> None:
    """CloudFormation cannot delete it; what it needs to fail at, it has made before."""
    resources = production.templates["joblane-data"]["Resources"]
    tables = production.resources("AWS::DynamoDB::Table", "data")
    others = set(resources) - set(tables) - {name_of_stream(resources)}
    for table in tables.values():
        assert others == set(table["DependsOn"])


def name_of_stream(resources: dict[str, Resource]) -> str:
    """The parameter with the ARN of a table's stream, which cannot come before the table."""
    (name,) = [
        name
        for name, each in resources.items()
        if str(each["Properties"].get("Name", "")).endswith("/jobs-stream")
    ]
    return name


@pytest.fixture(name="data", scope="module")
def _data(production: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Resource]:
    """Resources of the data stack for an account, as with credentials for the CDK CLI."""
    app = new_app(tmp_path_factory.mktemp("data"))
    DataStack(app, production.config, Environment(account="111122223333", region="eu-west-1"))
    ((_, template),) = read_templates(Path(app.synth().directory))
    return dict(template["Resources"])


def test_cloudformation_finds_what_stayed_by_its_name(
    production: Deployment, data: dict[str, Resource]
) -> None:
    """It adopts what the template names literally, by what identifies the type."""
    kept = [(name, r) for name, r in every(production) if r["Type"] in KEPT]
    in_data = [(name, r) for name, r in data.items() if r["Type"] in KEPT]
    elsewhere = [(name, r) for name, r in kept if not name.startswith("joblane-data/")]
    assert len(in_data) + len(elsewhere) == len(kept)
    for name, resource in [*in_data, *elsewhere]:
        schema: Any = PROVIDER_SCHEMA_MANAGER.get_resource_schema("eu-west-1", resource["Type"])
        (identifier,) = schema.schema["primaryIdentifier"]
        by_hand = identifier in schema.schema["readOnlyProperties"]
        key = identifier.removeprefix("/properties/")
        assert (name, by_hand) == (name, resource["Type"] in BY_HAND)
        if by_hand:
            assert BY_HAND[resource["Type"]] == key
        else:
            assert (name, str) == (name, type(resource["Properties"][key]))
        assert {"read", "list"} <= schema.schema["handlers"].keys()


def test_the_page_names_what_stays_as_the_templates_do(production: Deployment) -> None:
    text = DEPLOY.read_text(encoding="utf-8")
    (pool,) = production.resources("AWS::Cognito::UserPool", "identity")
    assert re.findall(r'\{"(\w+)": \{"UserPoolId"', text) == [pool]
    assert [" ".join(sorted(TABLES))] == re.findall(r"^for table in (.*); do$", text, re.MULTILINE)


CHECKED = ["python", "-m", "scripts.deploying.deploy", "--all"]


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        (["deploy", "--all"], [CHECKED, ["cdk", "deploy", "--import-existing-resources", "--all"]]),
        (["destroy", "--all"], [["python", "-m", "scripts.deploying.destroy", "--all"]]),
        (["diff", "--all"], [["cdk", "diff", "--all"]]),
        ([], [["cdk"]]),
    ],
)
def test_a_deployment_is_checked_and_adopts_and_a_destroy_removes_protection_first(
    tmp_path: Path, arguments: list[str], ran: list[list[str]]
) -> None:
    assert (0, ran) == run_cdk(tmp_path, arguments, python=0)


def test_what_the_preflight_refuses_is_not_deployed(tmp_path: Path) -> None:
    assert (1, [CHECKED]) == run_cdk(tmp_path, ["deploy", "--all"], python=1)


def run_cdk(folder: Path, arguments: list[str], *, python: int) -> tuple[int, list[list[str]]]:
    """Run scripts/cdk with stand-ins: its exit code, and what it started.

    `python` is the exit code of its programs in Python.
    """
    checkout, told = folder / "checkout", folder / "told"
    stand_in = f'#!/bin/sh\necho "${{0##*/}}" "$@" >>{told}\n'
    for name, text in (
        ("scripts/cdk", (ROOT / "scripts/cdk").read_text(encoding="utf-8")),
        ("scripts/setup", '#!/bin/sh\n[ "$*" = deploy ]\n'),
        (".venv/bin/python", f"{stand_in}exit {python}\n"),
        ("node_modules/.bin/cdk", stand_in),
    ):
        program = checkout / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    done = subprocess.run([checkout / "scripts/cdk", *arguments], check=False)
    lines = told.read_text(encoding="utf-8").splitlines()
    return done.returncode, [line.split() for line in lines]


def test_a_destroy_finds_the_groups_and_their_stacks(production: Deployment) -> None:
    name = production.config.name
    for stack, template in production.templates.items():
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::AutoScaling::AutoScalingGroup":
                group = resource["Properties"]
                tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
                assert name == tags[DEPLOYMENT_TAG]
                assert stack == fleet_stack_name(name, group["AutoScalingGroupName"])
                assert group["NewInstancesProtectedFromScaleIn"] is True


def test_agents_do_not_set_protection(production: Deployment) -> None:
    """So nothing sets it again once it is removed (scripts/deploying/protection.py)."""
    assert "SetInstanceProtection" not in str(production.templates)
    assert "autoscaling:UpdateAutoScalingGroup" not in str(production.templates)


def test_a_client_goes_with_its_machine(production: Deployment, laptop: Deployment) -> None:
    for deployment in (production, laptop):
        config = deployment.config
        machines = sum(len(tenant.machines) for tenant in config.tenants.values())
        clients = deployment.resources("AWS::Cognito::UserPoolClient")
        assert 1 + machines + len(config.platform.machines) == len(clients)  # 1: that of people
        assert {("Delete", "Delete")} == {policies(client) for client in clients.values()}
