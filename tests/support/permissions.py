"""What the roles of a deployment may do, read from its IAM, and the calls that they made."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import boto3

from scripts.local.cloud import DEPLOYMENT, Cloud


class Permission(NamedTuple):
    """One action of one role on resources of one kind."""

    role: str
    action: str
    resource: str


Granted = dict[Permission, set[str]]
"""Permissions with the ARNs or patterns of their resources."""


class Call(NamedTuple):
    """A call that differs from all earlier ones."""

    role: str
    action: str
    arn: str
    allowed: bool


def kind(arn: str) -> str:
    """`service:name` of an ARN; lanes of all queues and priorities are one kind."""
    if arn == "*":
        return arn
    _, _, service, _, _, name = arn.split(":", maxsplit=5)
    lane = re.fullmatch(rf"{DEPLOYMENT}-(lane|dlq)-.+_.+", name)
    if service == "sqs" and lane:
        name = "dead letters" if lane[1] == "dlq" else "lanes"
    return f"{service}:{name}"


def short(role: str) -> str:
    """`Submission` of joblane-api-SubmissionRole01234567-89AB."""
    named = re.fullmatch(rf"{DEPLOYMENT}-[a-z]+-([A-Z][a-z]+)Role[0-9A-F]{{8}}-.+", role)
    return named[1] if named else role


def as_list(value: Any) -> list[Any]:
    """A policy's field, which may be one value or several."""
    return value if isinstance(value, list) else [value]


def read_granted() -> Granted:
    """Every permission of the deployment's roles."""
    iam = boto3.client("iam")
    found: dict[Permission, set[str]] = {}
    names = [
        role["RoleName"]
        for page in iam.get_paginator("list_roles").paginate()
        for role in page["Roles"]
        if role["RoleName"].startswith(f"{DEPLOYMENT}-")
    ]
    for name in names:
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            document: Any = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for statement in document["Statement"]:
                if statement["Effect"] == "Allow":
                    for action in as_list(statement["Action"]):
                        for arn in as_list(statement["Resource"]):
                            permission = Permission(short(name), action, kind(arn))
                            found.setdefault(permission, set()).add(arn)
    return found


def record(cloud: Cloud, folder: Path, name: str) -> None:
    """Write down what the roles of a deployment may do, and what they did, for `read_recorded`."""
    permissions = [[*permission, sorted(arns)] for permission, arns in read_granted().items()]
    calls = [list(call) for call in read_calls(cloud.ministack.calls)]
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"granted": permissions, "calls": calls}), encoding="utf-8")


def read_recorded(files: Iterable[Path]) -> tuple[Granted, list[Call]]:
    """Read what `record` has written of several deployments of the same stacks."""
    permissions: Granted = {}
    calls: list[Call] = []
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        for role, action, resource, arns in found["granted"]:
            permissions.setdefault(Permission(role, action, resource), set()).update(arns)
        calls += [Call(*call) for call in found["calls"]]
    return permissions, calls


def read_calls(file: Path) -> list[Call]:
    """The calls that MiniStack has written down."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Call(short(role), *call) for role, *call in map(json.loads, lines)]
