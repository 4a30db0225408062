"""Reads policies and joined values of synthesized templates, and runs cfn-lint over them."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cfnlint.config import ConfigMixIn
from cfnlint.runner import Runner

from tests.infra.synthesis import Deployment

STACK_OF = {
    "Submission": "api",
    "Admin": "api",
    "Status": "api",
    "Console": "api",
    "Recovery": "recovery",
    "Tester": "recovery",
    "Machine": "recovery",
    "Requeue": "upkeep",
    "Due": "upkeep",
    "Deadletter": "upkeep",
    "Instanceend": "upkeep",
    "Instancewatch": "upkeep",
    "Scaler": "upkeep",
    "Projector": "projection",
    "Sequel": "projection",
    "Notifier": "projection",
    "Tracer": "projection",
    "Exporter": "projection",
    "Agent": "fleet-main",
}


def statements(
    deployment: Deployment, owner: str, stack: str | None = None
) -> Iterator[dict[str, Any]]:
    """Every statement of every inline policy of one role; agents of each fleet have one."""
    stack = stack or STACK_OF[owner]
    roles = deployment.resources("AWS::IAM::Role", stack)
    prefix = "Role" if owner == "Agent" else f"{owner}Role"
    (role_id,) = [logical_id for logical_id in roles if logical_id.startswith(prefix)]
    assert "Policies" not in roles[role_id]["Properties"]
    for policy in deployment.properties("AWS::IAM::Policy", stack):
        if {"Ref": role_id} in policy["Roles"]:
            yield from policy["PolicyDocument"]["Statement"]


def parameters(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Parameters of the data stack by name."""
    return {p["Name"]: p for p in deployment.properties("AWS::SSM::Parameter", "data")}


def as_list(value: Any) -> list[Any]:
    """A policy's field, which may be one value or several."""
    return value if isinstance(value, list) else [value]


def resolve(value: Any) -> str:
    """What CloudFormation would make of a joined value, in an account of our own.

    A parameter of the stack and what it imports stay their names.
    """
    known = {
        "AWS::Partition": "aws",
        "AWS::Region": "eu-west-1",
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::AccountId": "111122223333",
    }
    if isinstance(value, str):
        return value
    if "Fn::GetAtt" in value:
        return f"arn:aws:lambda:eu-west-1:111122223333:function:{value['Fn::GetAtt'][0]}"
    if "Fn::Sub" in value:
        return re.sub(r"\$\{(.+?)\}", lambda name: known[name[1]], value["Fn::Sub"])
    if "Ref" in value:
        return known.get(value["Ref"], str(value["Ref"]))
    if "Fn::ImportValue" in value:
        return str(value["Fn::ImportValue"])
    separator, parts = value["Fn::Join"]
    return str(separator).join(resolve(part) for part in parts)


def granted(deployment: Deployment, owner: str) -> set[tuple[str, str]]:
    """Actions and resources of one role, but for the log of its function."""
    found = {
        (action, resource if isinstance(resource, str) else str(resolve(resource)))
        for statement in statements(deployment, owner)
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }
    return {each for each in found if not each[0].startswith("logs:")}


def process_environment(deployment: Deployment, function: str) -> dict[str, str]:
    """A function's environment as it reads it; the name of a client stands for its id."""
    clients = deployment.resources("AWS::Cognito::UserPoolClient")

    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        if value.get("Ref") in clients:
            return str(clients[value["Ref"]]["Properties"]["ClientName"])
        if "Fn::Join" in value:
            return "".join(map(text, value["Fn::Join"][1]))
        return "?"

    return {name: text(value) for name, value in deployment.environment(function).items()}


@functools.cache
def _linter() -> Runner:
    return Runner(ConfigMixIn(templates=[]))


def lint(files: list[Path]) -> list[dict[str, Any]]:
    """Run cfn-lint with every rule, in this process: rules are loaded once."""
    linter = _linter()
    linter.config = ConfigMixIn(templates=[str(file) for file in files])
    return [
        {"Filename": each.filename, "Rule": {"Id": each.rule.id}, "Message": each.message}
        for each in linter.run()
    ]
