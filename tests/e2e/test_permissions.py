"""What the roles of the suite's deployment really did, against what they may do.

The local AWS lets a role do what its policies allow and no more, so a missing permission fails
the test that needs it. This looks back at the whole suite: nothing may have been refused, not
even what somebody tried again, and nothing may be granted that nobody needs. scripts/test runs
the suite in two processes with a deployment each, and this afterwards: JOBLANE_E2E_CALLS is where
both have left the calls that they saw.
"""

import json
import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest

from scripts.local.cloud import DEPLOYMENT, Cloud

EARLIER, PROCESSES = os.environ.get("JOBLANE_E2E_CALLS"), 2


class Permission(NamedTuple):
    """One action of one role on resources of one kind."""

    role: str
    action: str
    resource: str


EXCUSED = {
    "there is no X-Ray here": ("* xray:* *",),
    "Lambda keeps a function's log, here without its role": (
        "* logs:CreateLogStream logs:log-group:/aws/lambda/*",
        "* logs:PutLogEvents logs:log-group:/aws/lambda/*",
    ),
    "Lambda puts aside what a function failed at every time, here without its role": (
        "* sqs:SendMessage sqs:joblane-alternate",
    ),
    "Lambda feeds functions from queues and streams, here without their role": (
        "Deadletter sqs:DeleteMessage *",
        "Deadletter sqs:GetQueueAttributes *",
        "Deadletter sqs:ReceiveMessage *",
        "Projector dynamodb:DescribeStream *",
        "Projector dynamodb:GetRecords *",
        "Projector dynamodb:GetShardIterator *",
        "Projector dynamodb:ListStreams *",
    ),
    "state machines run here without their role": ("Machine *",),
    "there are no instances here": (
        "joblane-agent autoscaling:CompleteLifecycleAction *",
        "joblane-agent s3:GetObject s3:cdk-*.zip",
    ),
    "secrets have no keys here": ("joblane-agent kms:Decrypt *",),
}
"""What no test can use: reason, and patterns of `role action resource`."""

SELDOM = {
    "an instance's end is reported by AWS, and to one test": ("Instanceend *",),
    "conditions on slots are tested without AWS": ("Recovery dynamodb:Query *joblane-agents",),
    "only what waits for hours, or was lost, is found by the walk over due jobs": (
        "Requeue dynamodb:BatchGetItem dynamodb:table/joblane-jobs",
        "Requeue dynamodb:GetItem dynamodb:table/joblane-jobs",
        "Requeue dynamodb:Query dynamodb:table/joblane-agents",
        "Requeue dynamodb:UpdateItem *",
        "Requeue sqs:SendMessage *",
    ),
    "a message is sent again after hours, or after a fault": (
        "Deadletter sqs:SendMessage sqs:lanes",
        "joblane-agent sqs:SendMessage sqs:lanes",
    ),
}
"""What some runs of the suite use and others do not; written in the same way."""


def kind(arn: str) -> str:
    """`service:name` of an ARN; lanes of all queues and priorities are one kind."""
    if arn == "*":
        return arn
    _, _, service, _, _, name = arn.split(":", maxsplit=5)
    lane = re.fullmatch(rf"{DEPLOYMENT}-(?:default|bulk)-(?:high|default|low)(-dlq)?", name)
    if service == "sqs" and lane:
        name = "dead letters" if lane[1] else "lanes"
    return f"{service}:{name}"


def short(role: str) -> str:
    """`Submission` of joblane-api-SubmissionRole01234567-89AB."""
    named = re.fullmatch(rf"{DEPLOYMENT}-[a-z]+-([A-Z][a-z]+)Role[0-9A-F]{{8}}-.+", role)
    return named[1] if named else role


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed() -> dict[Permission, set[str]]:
    """Every permission of the deployment's roles, with the ARNs or patterns of its resources."""
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


def whole_suite(session: pytest.Session) -> bool:
    """Whether every test of this folder was asked for, or has been run already."""
    if EARLIER is not None:
        return True
    asked = {item.path for item in session.items}
    everything = set(Path(__file__).parent.glob("test_*.py"))
    return everything <= asked and not session.config.option.keyword


@pytest.fixture(name="calls")
def _calls(cloud: Cloud) -> list[tuple[str, str, str, bool]]:
    """Role, action, ARN and whether it was allowed, of each different call up to now."""
    files = [cloud.ministack.calls]
    if EARLIER is not None:
        earlier = list(Path(EARLIER).glob("*.jsonl"))
        assert PROCESSES == len(earlier)
        files += earlier
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = [(short(role), *call) for role, *call in map(json.loads, lines)]
    assert {"Submission", "joblane-agent"} <= {role for role, *_ in found}
    return found


def test_nothing_was_refused(calls: list[tuple[str, str, str, bool]]) -> None:
    assert [] == [call for call in calls if not call[-1]]


def test_nothing_is_granted_that_is_not_used(
    calls: list[tuple[str, str, str, bool]], request: pytest.FixtureRequest
) -> None:
    if not whole_suite(request.session):
        pytest.skip("says something after the whole suite only")
    unused = {
        permission
        for permission, patterns in allowed().items()
        if not any(
            (role, action) == permission[:2] and any(fnmatchcase(arn, each) for each in patterns)
            for role, action, arn, _ in calls
        )
    }
    written = [" ".join(permission) for permission in sorted(unused)]
    never = [each for patterns in EXCUSED.values() for each in patterns]
    excuses = [*never, *(each for patterns in SELDOM.values() for each in patterns)]
    assert [] == [each for each in written if not any(fnmatchcase(each, e) for e in excuses)]
    assert [] == [e for e in never if not any(fnmatchcase(each, e) for each in written)]
