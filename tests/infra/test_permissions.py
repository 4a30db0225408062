"""The policies of all roles equal this table, action by action, ARN by ARN."""

from typing import Any

import pytest

from infra.console import PATHS
from joblane.contract.routes import ROUTES
from tests.infra.synthesis import Deployment
from tests.infra.templates import as_list, statements

LANES = ("sqs:joblane-lane-*_*",)
DEAD_LETTERS = ("sqs:joblane-dlq-*_*",)
OWN_LANES = ("sqs:joblane-lane-default_*",)
OWN_DEAD_LETTERS = ("sqs:joblane-dlq-default_*",)
INBOXES = ("sqs:joblane-inbox-*",)
JOBS = "dynamodb:table/joblane-jobs"
AUDIT = "dynamodb:table/joblane-audit"
AGENTS = "dynamodb:table/joblane-agents"
SETTINGS = "dynamodb:table/joblane-settings"
COUNTERS = "dynamodb:table/joblane-counters"
KEYS = "dynamodb:table/joblane-keys"
CONDITIONS = "dynamodb:table/joblane-conditions"
TYPES = "dynamodb:table/joblane-types"
MACHINE = "states:stateMachine:joblane-recovery"
OUTPUT = "dynamodb:table/joblane-output"
PAYLOADS = "s3:joblane-<>-<>/payloads/*"
BUNDLES = "s3:joblane-<>-<>/bundles/*"
OBJECTS_OF_OUTPUT = "s3:joblane-<>-<>/output/*"
RESULTS = "s3:joblane-<>-<>/results/*"
FILES = "s3:joblane-<>-<>/files/*"
OUTPUT_FILES = "s3:joblane-<>-<>/outputs/*"
LOG_DELIVERY = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
)
ALTERNATE = "sqs:joblane-alternate"
PARAMETERS = "ssm:parameter/joblane/*"
SECRETS = "secretsmanager:secret:joblane/*"


def every(actions: tuple[str, ...], resources: tuple[str, ...]) -> set[tuple[str, str]]:
    return {(action, resource) for action in actions for resource in resources}


ALLOWED = {
    "Submission": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Submission",))
    | every(
        (
            "dynamodb:PutItem",
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:BatchWriteItem",
        ),
        (JOBS,),
    )
    | every(("dynamodb:Query",), (f"{JOBS}/index/by_tenant", f"{JOBS}/index/attention"))
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | {("dynamodb:BatchGetItem", SETTINGS)}
    | every(("dynamodb:GetItem",), (COUNTERS, TYPES))
    | {("dynamodb:PutItem", AUDIT), ("dynamodb:Query", f"{AUDIT}/index/by_job")}
    | every(("sqs:SendMessage",), (*LANES, *INBOXES))
    | every(("dynamodb:BatchWriteItem", "dynamodb:Query"), (OUTPUT,))
    | every(("s3:DeleteObject", "s3:GetObject"), (OBJECTS_OF_OUTPUT, RESULTS))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(("s3:DeleteObject", "s3:GetObject", "s3:PutObject"), (PAYLOADS,))
    | {("s3:GetObject", FILES), ("s3:DeleteObject", OUTPUT_FILES)}
    | {("s3:ListBucket", "s3:joblane-<>-<>")},
    "Admin": every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (TYPES,),
    )
    | {("dynamodb:BatchGetItem", KEYS), ("dynamodb:Query", f"{KEYS}/index/by_type")}
    | every(("s3:GetObject", "s3:PutObject"), (BUNDLES, FILES))
    | {("dynamodb:Query", COUNTERS), ("cloudwatch:GetMetricData", "*")}
    | every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Admin",))
    | every(("dynamodb:Query",), (AGENTS, f"{JOBS}/index/by_tenant", f"{JOBS}/index/attention"))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem"), (AGENTS,))
    | every(("dynamodb:PutItem", "dynamodb:Query"), (AUDIT,))
    | every(("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (SETTINGS,))
    | every(
        ("dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query"),
        (CONDITIONS,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES))
    | every(("sqs:GetQueueAttributes",), LANES + DEAD_LETTERS),
    "Status": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Status",))
    | every(("dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"), (COUNTERS,))
    | every(("dynamodb:GetItem",), (CONDITIONS, KEYS))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem"), (JOBS,))
    | {("dynamodb:BatchGetItem", SETTINGS), ("s3:GetObject", OUTPUT_FILES)}
    | every(("sqs:GetQueueAttributes",), LANES)
    | every(
        ("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"), ("*",)
    ),
    "Recovery": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Recovery",))
    | every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(
        (
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
        ),
        (CONDITIONS,),
    )
    | {("dynamodb:Query", AGENTS), ("states:StartExecution", MACHINE)}
    | {("lambda:InvokeFunction", "the function Tester")}
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE)),
    "Tester": set(),
    "Console": set(),
    "Machine": {("lambda:InvokeFunction", "the function Recovery")} | every(LOG_DELIVERY, ("*",)),
    "Requeue": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Requeue",))
    | {("dynamodb:Query", f"{JOBS}/index/wake")}
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"), (AGENTS,))
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | {("dynamodb:GetItem", TYPES)}
    | every(("dynamodb:BatchGetItem", "dynamodb:UpdateItem"), (SETTINGS,))
    | every(
        ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
        (JOBS,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE)),
    "Deadletter": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Deadletter",))
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(("sqs:SendMessage",), LANES)
    | every(
        ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"),
        (*DEAD_LETTERS, ALTERNATE),
    )
    | {("sns:Publish", "the topic")},
    "Instanceend": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Instanceend",))
    | every(("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:UpdateItem"), (AGENTS,))
    | {("dynamodb:BatchGetItem", AGENTS)}
    | every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | {("sqs:ListQueues", "*")}
    | every(("sqs:DeleteQueue", "sqs:GetQueueAttributes", "sqs:SetQueueAttributes"), INBOXES)
    | every(("sqs:SendMessage",), (*LANES, ALTERNATE)),
    "Instancewatch": every(
        ("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Instancewatch",)
    )
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (AGENTS,))
    | {
        ("autoscaling:DescribeAutoScalingGroups", "*"),
        (
            "autoscaling:SetInstanceHealth",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-*",
        ),
        ("sns:Publish", "the topic"),
        ("sqs:SendMessage", ALTERNATE),
    },
    "Scaler": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Scaler",))
    | every(("dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"), (AGENTS,))
    | every(("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"), (SETTINGS,))
    | every(("sqs:GetQueueAttributes",), LANES)
    | {
        ("autoscaling:DescribeAutoScalingGroups", "*"),
        ("autoscaling:DescribeScalingActivities", "*"),
        (
            "autoscaling:SetDesiredCapacity",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-*",
        ),
        ("sqs:SendMessage", ALTERNATE),
    },
    "Projector": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Projector",))
    | every(
        ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        ("the stream of jobs",),
    )
    | {("dynamodb:ListStreams", "*")}
    | every(("dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"), (COUNTERS,))
    | {
        ("sqs:SendMessage", ALTERNATE),
        ("lambda:InvokeFunction", "lambda:function:joblane-scaler"),
    },
    "Sequel": every(("logs:CreateLogStream", "logs:PutLogEvents"), ("logs of Sequel",))
    | every(
        ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
        ("the stream of jobs",),
    )
    | {("dynamodb:ListStreams", "*")}
    | every(("dynamodb:GetItem", "dynamodb:PutItem"), (KEYS,))
    | every(
        (
            "dynamodb:BatchGetItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
        ),
        (JOBS,),
    )
    | every(("sqs:SendMessage",), (*LANES, *INBOXES, ALTERNATE)),
    "Agent": every(("dynamodb:GetItem", "dynamodb:UpdateItem"), (JOBS,))
    | every(
        ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem"),
        (AGENTS,),
    )
    | every(
        (
            "sqs:ChangeMessageVisibility",
            "sqs:DeleteMessage",
            "sqs:ReceiveMessage",
            "sqs:SendMessage",
        ),
        OWN_LANES,
    )
    | every(
        (
            "sqs:ChangeMessageVisibility",
            "sqs:CreateQueue",
            "sqs:DeleteMessage",
            "sqs:GetQueueUrl",
            "sqs:ReceiveMessage",
        ),
        INBOXES,
    )
    | every(("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"), (CONDITIONS,))
    | {("dynamodb:BatchGetItem", SETTINGS), ("dynamodb:GetItem", KEYS)}
    | {
        ("states:StartExecution", MACHINE),
        ("lambda:InvokeFunction", "lambda:function:joblane-recovery"),
    }
    | every(("sqs:SendMessage",), OWN_DEAD_LETTERS)
    | {("dynamodb:PutItem", OUTPUT), ("s3:PutObject", OBJECTS_OF_OUTPUT)}
    | {("s3:PutObject", RESULTS), ("s3:PutObject", OUTPUT_FILES)}
    | {
        ("ssm:GetParameter", PARAMETERS),
        ("secretsmanager:GetSecretValue", SECRETS),
        ("kms:Decrypt", "kms:key/*"),
        ("s3:GetObject", "the bundle"),
        ("s3:GetObject", PAYLOADS),
        ("dynamodb:GetItem", TYPES),
        ("s3:GetObject", BUNDLES),
        ("s3:GetObject", FILES),
        (
            "autoscaling:CompleteLifecycleAction",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-main",
        ),
        (
            "autoscaling:TerminateInstanceInAutoScalingGroup",
            "autoscaling:autoScalingGroup:*:autoScalingGroupName/joblane-main",
        ),
    },
}
"""Each role with the actions it may do and on what; an ARN is written service:resource."""


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
    assert len(permissions) == len(ROUTES) + len(PATHS)
    for permission in permissions:
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert "execute-api" in str(permission["SourceArn"])
