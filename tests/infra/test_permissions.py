"""The policies of all roles equal this table, action by action, ARN by ARN."""

import json
from typing import Any

import pytest

from joblane.contract.public_routes import CONSOLE_ROUTES
from joblane.contract.routes import ROUTES
from tests.infra.allowed import ALLOWED, PARAMETERS, SECRETS
from tests.infra.synthesis import Deployment
from tests.infra.templates import as_list, statements


def short(resource: Any) -> str:
    """`service:resource` of an ARN that the template joins."""
    if isinstance(resource, str):
        return resource
    if "Ref" in resource:
        if resource["Ref"].startswith("SsmParameterValuejoblanejobsstream"):
            return "the stream of jobs"
        assert resource["Ref"].startswith("DeadLetters")
        return "the topic"
    if "Fn::GetAtt" in resource:
        name = resource["Fn::GetAtt"][0]
        if "Logs" in name:
            return f"logs of {name.partition('Logs')[0]}"
        return f"the function {name.partition('Function')[0]}"
    text = "".join(part if isinstance(part, str) else "<>" for part in resource["Fn::Join"][1])
    _, _, service, _, _, name = text.split(":", maxsplit=5)
    is_bundle = service == "s3" and name.endswith(".zip")
    return "the bundle" if is_bundle else f"{service}:{name}"


@pytest.mark.parametrize("owner", ALLOWED)
def test_each_role_may_do_exactly_this(production: Deployment, owner: str) -> None:
    found = set()
    for statement in statements(production, owner):
        if statement["Effect"] == "Deny":
            continue
        assert statement["Effect"] == "Allow"
        assert "NotAction" not in statement
        assert "NotResource" not in statement
        found |= {
            (action, short(resource))
            for action in as_list(statement["Action"])
            for resource in as_list(statement["Resource"])
        }
    assert ALLOWED[owner] == found


def test_the_function_lists_keys_of_output_files_only(production: Deployment) -> None:
    (condition,) = [
        statement["Condition"]
        for statement in statements(production, "Submission")
        if "s3:ListBucket" in as_list(statement["Action"])
    ]
    assert {"StringLike": {"s3:prefix": "outputs/*"}} == condition


def test_the_agent_uses_keys_for_the_deployments_secrets_only(production: Deployment) -> None:
    found = {}
    for statement in statements(production, "Agent"):
        if statement["Action"] == "kms:Decrypt":
            conditions = statement["Condition"]
            assert conditions.keys() == {"StringEquals", "StringLike"}
            assert conditions["StringEquals"].keys() == {"kms:ViaService"}
            (via,) = conditions["StringEquals"].values()
            ((context, secrets),) = conditions["StringLike"].items()
            found[via["Fn::Join"][1][0]] = (context, short(secrets))
    assert found == {
        "secretsmanager.": ("kms:EncryptionContext:SecretARN", SECRETS),
        "ssm.": ("kms:EncryptionContext:PARAMETER_ARN", PARAMETERS),
    }


def test_the_agent_reads_no_parameter_of_others_whatever_policy_is_attached(
    production: Deployment,
) -> None:
    denied = {
        owner: statement
        for owner in ALLOWED
        for statement in statements(production, owner)
        if statement["Effect"] == "Deny"
    }
    assert denied.keys() == {"Agent"}
    statement = denied["Agent"]
    assert "Condition" not in statement
    assert set(statement["Action"]) == {
        "ssm:GetParameter",
        "ssm:GetParameterHistory",
        "ssm:GetParameters",
        "ssm:GetParametersByPath",
    }
    assert {short(resource) for resource in statement["NotResource"]} == {
        PARAMETERS,
        "ssm:parameter/aws/service/*",
    }


def test_the_watch_replaces_instances_of_this_deployment_only(production: Deployment) -> None:
    (statement,) = [
        statement
        for statement in statements(production, "Instancewatch")
        if statement["Action"] == "autoscaling:SetInstanceHealth"
    ]
    own = {"aws:ResourceTag/joblane:deployment": "joblane"}
    assert {"StringEquals": own} == statement["Condition"]
    group = production.one("AWS::AutoScaling::AutoScalingGroup")
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    assert ("joblane", "joblane-main") == (tags["joblane:deployment"], tags["joblane:fleet"])


def test_the_scaler_writes_records_of_fleets_and_sizes_of_this_deployment_only(
    production: Deployment,
) -> None:
    conditions = {
        str(statement["Action"]): statement.get("Condition")
        for statement in statements(production, "Scaler")
    }
    own = {"aws:ResourceTag/joblane:deployment": "joblane"}
    assert {"StringEquals": own} == conditions["autoscaling:SetDesiredCapacity"]
    records = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["FLEET#*"]}}
    assert records == conditions["['dynamodb:GetItem', 'dynamodb:PutItem']"]


def test_the_admin_function_writes_no_counters_but_those_of_uploads(production: Deployment) -> None:
    (found,) = (
        statement
        for statement in statements(production, "Admin")
        if "counters" in json.dumps(statement) and "dynamodb:UpdateItem" in statement["Action"]
    )
    own = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["uploads/*"]}}
    assert own == found["Condition"]


def test_the_bundle_is_one_object_of_the_assets_bucket(production: Deployment) -> None:
    (resource,) = [
        resource
        for statement in statements(production, "Agent")
        for resource in as_list(statement.get("Resource", []))
        if statement["Action"] == "s3:GetObject" and short(resource) == "the bundle"
    ]
    *_, bucket, key = resource["Fn::Join"][1]
    assert bucket["Fn::Sub"] == "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
    assert key.endswith(".zip")
    assert "*" not in key


def test_no_policy_of_aws_is_attached_but_the_one_of_session_manager(
    production: Deployment,
) -> None:
    attached = [
        policy["Fn::Join"][1][-1]
        for role in production.properties("AWS::IAM::Role")
        for policy in role.get("ManagedPolicyArns", [])
    ]
    assert attached == [":iam::aws:policy/AmazonSSMManagedInstanceCore"]


def test_there_are_no_more_roles_than_the_table_knows(production: Deployment) -> None:
    assert len(ALLOWED) == len(production.resources("AWS::IAM::Role"))
    assert len(list(filter(None, ALLOWED.values()))) == len(
        production.resources("AWS::IAM::Policy")
    )


def test_the_machine_serves_this_account_only(production: Deployment) -> None:
    (role,) = [
        role["Properties"]
        for name, role in production.resources("AWS::IAM::Role", "recovery").items()
        if name.startswith("MachineRole")
    ]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert {"Service": "states.amazonaws.com"} == trust["Principal"]
    assert {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}} == trust["Condition"]


def test_only_its_rule_may_call_the_recovery_function_unasked(production: Deployment) -> None:
    permission = production.one("AWS::Lambda::Permission", "recovery")
    assert permission["Principal"] == "events.amazonaws.com"
    assert permission["SourceArn"]["Fn::GetAtt"][0].startswith("Failed")


def test_only_its_api_may_call_a_function(production: Deployment) -> None:
    permissions = production.properties("AWS::Lambda::Permission", "api")
    assert len(permissions) == len(ROUTES) + len(CONSOLE_ROUTES)
    for permission in permissions:
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert "execute-api" in str(permission["SourceArn"])
