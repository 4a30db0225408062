"""Synthesis refuses what exceeds a limit of AWS, by name and number: each overrun is planted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import app
from infra.lanes import LanesStack, stack_of
from infra.limits import LimitError, require_deployable
from tests.infra.synthesis import Deployment, new_app

Template = dict[str, Any]


def add(kind: str, properties: dict[str, Any]) -> Callable[[Template], None]:
    """Add a resource `Planted`."""

    def plant(template: Template) -> None:
        template["Resources"]["Planted"] = {"Type": kind, "Properties": properties}

    return plant


def many(key: str, number: int) -> Callable[[Template], None]:
    """Fill a part of the template up to a number of entries."""

    def plant(template: Template) -> None:
        part = template.setdefault(key, {})
        for n in range(number - len(part)):
            part[f"Planted{n}"] = {"Type": "AWS::CloudFormation::WaitConditionHandle"}

    return plant


def policy(characters: int) -> dict[str, Any]:
    """A policy document of that many characters without white space, and some with it."""
    empty = {"Version": "2012-10-17", "Statement": [{"Action": ""}]}
    missing = characters - len(json.dumps(empty, separators=(",", ":")))
    return {"Version": "2012-10-17", "Statement": [{"Action": "x" * missing}]}


def role(template: Template) -> str:
    """Logical id of a role."""
    resources: dict[str, dict[str, Any]] = template["Resources"]
    return next(name for name, each in resources.items() if each["Type"] == "AWS::IAM::Role")


def inline(template: Template) -> None:
    used = {"Roles": [{"Ref": role(template)}], "PolicyDocument": policy(10_241)}
    add("AWS::IAM::Policy", used)(template)


def attach(template: Template) -> None:
    template["Resources"][role(template)]["Properties"]["ManagedPolicyArns"] = ["arn"] * 11


def padding(template: Template) -> None:
    template["Metadata"] = "x" * 1_000_000


CASES: dict[str, tuple[Callable[[Template], None], str]] = {
    "resources": (many("Resources", 501), "number of resources: 501; AWS allows 500"),
    "outputs": (many("Outputs", 201), "number of outputs: 201; AWS allows 200"),
    "parameters": (many("Parameters", 201), "number of parameters: 201; AWS allows 200"),
    "template": (padding, "bytes of its template: 1,"),
    "environment": (
        add(
            "AWS::Lambda::Function",
            {"FunctionName": "f", "Environment": {"Variables": {"A": '"' * 2045}}},
        ),
        "bytes in the environment of the function f: 4,098; AWS allows 4,096",
    ),
    "inline policies": (inline, "characters of the inline policies of the role "),
    "managed policy": (
        add("AWS::IAM::ManagedPolicy", {"PolicyDocument": policy(6145)}),
        "characters of the managed policy Planted: 6,145; AWS allows 6,144",
    ),
    "managed policies of a role": (attach, ": 11; AWS allows 10"),
    "queue policy": (
        add("AWS::SQS::QueuePolicy", {"PolicyDocument": policy(8193)}),
        "bytes of the queue policy Planted: 8,193; AWS allows 8,192",
    ),
    "audiences": (
        add("AWS::ApiGatewayV2::Authorizer", {"JwtConfiguration": {"Audience": ["a"] * 51}}),
        "audiences of the authorizer Planted: 51; AWS allows 50",
    ),
    "standard parameter": (
        add("AWS::SSM::Parameter", {"Name": "/p", "Value": "x" * 4097}),
        "bytes of the parameter /p: 4,097; AWS allows 4,096",
    ),
    "large parameter": (
        add(
            "AWS::SSM::Parameter",
            {"Name": "/p", "Value": "x" * 8193, "Tier": "Intelligent-Tiering"},
        ),
        "bytes of the parameter /p: 8,193; AWS allows 8,192",
    ),
    "document": (
        add("AWS::SSM::Document", {"Content": {"a": "x" * 65_529}}),
        "bytes of the SSM document Planted: 65,537; AWS allows 65,536",
    ),
    "name of a queue": (
        add("AWS::SQS::Queue", {"QueueName": "x" * 81}),
        f"characters of the name {'x' * 81} (AWS::SQS::Queue): 81; AWS allows 80",
    ),
    "name of a bucket": (
        add(
            "AWS::S3::Bucket",
            {"BucketName": {"Fn::Join": ["-", ["x" * 36, {"Ref": "AWS::Region"}, "0" * 12]]}},
        ),
        "(AWS::S3::Bucket): 64; AWS allows 63",
    ),
    "alarm": (
        add("AWS::CloudWatch::Alarm", {"AlarmActions": ["a"] * 6}),
        "AlarmActions of the alarm Planted: 6; AWS allows 5",
    ),
    "filters": (
        add("AWS::Lambda::EventSourceMapping", {"FilterCriteria": {"Filters": [{}] * 6}}),
        "filters of the event source mapping Planted: 6; AWS allows 5",
    ),
    "user data": (
        add(
            "AWS::EC2::LaunchTemplate",
            {"LaunchTemplateData": {"UserData": {"Fn::Base64": "x" * 16_385}}},
        ),
        "bytes of user data of the launch template Planted: 16,385; AWS allows 16,384",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_overrun_is_refused_by_name_and_number(
    tmp_path: Path, production: Deployment, case: str
) -> None:
    plant, expected = CASES[case]
    template = json.loads(json.dumps(production.templates["joblane-recovery"]))
    file = tmp_path / "joblane-recovery.template.json"
    file.write_text(json.dumps(template), encoding="utf-8")
    require_deployable(tmp_path)

    plant(template)
    file.write_text(json.dumps(template), encoding="utf-8")

    with pytest.raises(LimitError) as refused:
        require_deployable(tmp_path)
    (line,) = refused.value.lines
    assert line.startswith("joblane-recovery: ")
    assert expected in line


def test_the_app_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line and exit code 1, not CloudFormation's refusal after minutes."""
    names = [name for n in range(400) if stack_of(name := f"q{n}") == 2][:84]
    queues = "".join(f"[queues.{name}]\n" for name in names)
    config = tmp_path / "joblane.toml"
    config.write_text(f'default_queue = "{names[0]}"\n[tenants.main]\n{queues}', encoding="utf-8")
    monkeypatch.setattr(app, "App", lambda: new_app(tmp_path / "cdk.out", config=str(config)))
    # Of the stacks, the one that is too large; of the assets, none.
    monkeypatch.setattr(app, "compose", lambda cdk, config, *_: LanesStack(cdk, config, 2))
    monkeypatch.setattr(app, "build_assets", lambda *_: None)

    assert 1 == app.main()

    said = [line for line in capsys.readouterr().err.splitlines() if "AWS allows" in line]
    assert [
        (
            "joblane-lanes-2: number of resources: 505; AWS allows 500; "
            "declare fewer queues, tenants or machines"
        )
    ] == said
