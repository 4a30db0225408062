"""What the roles of the suite's deployments really did, against what they may do.

The local AWS lets a role do what its policies allow and no more, so a missing permission fails
the test that needs it. This looks back at the whole suite: nothing may have been refused, not
even what was tried again, and nothing may be granted that is never used. scripts/test runs the
suite in JOBLANE_E2E_PROCESSES processes with a deployment each, and this afterwards: each process
has left its calls in the folder JOBLANE_E2E_CALLS.
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.permissions import Call, Granted, read_calls, read_granted, read_recorded

EARLIER, PROCESSES = os.environ.get("JOBLANE_E2E_CALLS"), os.environ.get("JOBLANE_E2E_PROCESSES")

STRANGERS = {"joblane-ci", "joblane-idle"}
"""Roles of callers, which test_iam.py has refused: one by its policy, one by a forged signature."""

EXCUSED = {
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
        "Due sqs:ChangeMessageVisibility *",
        "Due sqs:DeleteMessage *",
        "Due sqs:GetQueueAttributes *",
        "Due sqs:ReceiveMessage *",
        "Exporter sqs:ChangeMessageVisibility *",
        "Exporter sqs:DeleteMessage *",
        "Exporter sqs:GetQueueAttributes *",
        "Exporter sqs:ReceiveMessage *",
        "Notifier sqs:DeleteMessage *",
        "Notifier sqs:GetQueueAttributes *",
        "Notifier sqs:ReceiveMessage *",
        "Projector dynamodb:DescribeStream *",
        "Projector dynamodb:GetRecords *",
        "Projector dynamodb:GetShardIterator *",
        "Projector dynamodb:ListStreams *",
        "Sequel dynamodb:DescribeStream *",
        "Sequel dynamodb:GetRecords *",
        "Sequel dynamodb:GetShardIterator *",
        "Sequel dynamodb:ListStreams *",
        "Tracer sqs:DeleteMessage *",
        "Tracer sqs:GetQueueAttributes *",
        "Tracer sqs:ReceiveMessage *",
    ),
    "state machines run here without their role": ("Machine *",),
    "there are no instances here": (
        "Instancewatch autoscaling:SetInstanceHealth *",
        "Status autoscaling:DescribeScalingActivities *",
        "Instancewatch dynamodb:* *",
        "Instancewatch sns:Publish *",
        "Scaler autoscaling:DescribeScalingActivities *",
        "Scaler autoscaling:SetDesiredCapacity *",
        "Scaler dynamodb:GetItem dynamodb:table/joblane-settings",
        "Scaler dynamodb:PutItem dynamodb:table/joblane-settings",
        "Scaler dynamodb:PutItem dynamodb:table/joblane-agents",
        "Scaler dynamodb:UpdateItem dynamodb:table/joblane-agents",
        "joblane-agent autoscaling:CompleteLifecycleAction *",
        "joblane-agent autoscaling:TerminateInstanceInAutoScalingGroup *",
        "joblane-agent s3:GetObject s3:cdk-*.zip",
    ),
    "nothing here is as old as what a new mapping leaves out": (
        "Deadletter ssm:GetParameter *sequel-mapping",
        "Sequel ssm:GetParameter *sequel-mapping",
    ),
    "no file here is so old that it is copied, and no submission that waits is large": (
        "Requeue s3:GetObject *payloads*",
        "Requeue s3:PutObject *",
    ),
    "what schedules start here has no type, no input files and no label as its target, and none "
    "is declared no more": (
        "Due dynamodb:GetItem dynamodb:table/joblane-types",
        "Due s3:GetObject *",
        "Requeue dynamodb:DeleteItem dynamodb:table/joblane-jobs",
    ),
    "secrets and topics have no keys here": (
        "joblane-agent kms:Decrypt *",
        "Notifier kms:Decrypt *",
        "Notifier kms:GenerateDataKey *",
        "Tracer kms:Decrypt *",
    ),
}
"""What no test can use: reason, and patterns of `role action resource`."""

SELDOM = {
    "an instance's end is reported by AWS, and to one test": ("Instanceend *",),
    "conditions on slots are tested without AWS": ("Recovery dynamodb:Query *joblane-agents",),
    "only what waits for hours, or was lost, is found by the walk over due jobs": (
        "Requeue dynamodb:BatchGetItem dynamodb:table/joblane-jobs",
        "Requeue dynamodb:BatchGetItem dynamodb:table/joblane-keys",
        "Requeue dynamodb:GetItem dynamodb:table/joblane-jobs",
        "Requeue dynamodb:GetItem dynamodb:table/joblane-agents",
        "Requeue dynamodb:Query dynamodb:table/joblane-agents",
        "Requeue dynamodb:UpdateItem *",
        "Requeue sqs:SendMessage *",
    ),
    "a message is sent again after hours, or after a fault": (
        "Deadletter sqs:SendMessage sqs:lanes",
        "joblane-agent sqs:SendMessage sqs:lanes",
    ),
    "only the lost job of a key is judged by its key": (
        "joblane-agent dynamodb:GetItem dynamodb:table/joblane-keys",
    ),
    "only a scheduled job of a type is looked up by requeue, for its key": (
        "Requeue dynamodb:GetItem dynamodb:table/joblane-types",
    ),
    "only what a crash has left behind is let go again": (
        "Sequel dynamodb:BatchGetItem dynamodb:table/joblane-jobs",
        "Sequel dynamodb:GetItem dynamodb:table/joblane-jobs",
    ),
    "only in a group with max_concurrency do members begin when others end": (
        "Sequel dynamodb:PutItem dynamodb:table/joblane-jobs",
        "Sequel sqs:SendMessage *inbox*",
    ),
    "only a group has a roster or values; requeue makes those that have a run_at": (
        "Requeue dynamodb:BatchWriteItem dynamodb:table/joblane-jobs",
        "Submission dynamodb:BatchWriteItem dynamodb:table/joblane-jobs",
    ),
}
"""What some runs of the suite use and others do not; written in the same way."""


def whole_suite(session: pytest.Session) -> bool:
    """Whether every test of this folder was asked for, or has been run already."""
    if EARLIER is not None:
        return True
    asked = {item.path for item in session.items}
    everything = set(Path(__file__).parent.glob("test_*.py"))
    return everything <= asked and not session.config.option.keyword


@pytest.fixture(name="seen", scope="module")
def _seen(request: pytest.FixtureRequest) -> tuple[Granted, list[Call]]:
    """What the roles may do, and each different call up to now."""
    if EARLIER is None:
        permissions, calls = (
            read_granted(),
            read_calls(request.getfixturevalue("cloud").ministack.calls),
        )
    else:
        earlier = list(Path(EARLIER).glob("*.json"))
        assert PROCESSES == str(len(earlier))
        permissions, calls = read_recorded(earlier)
    assert {"Submission", "joblane-agent"} <= {call.role for call in calls}
    return permissions, calls


def test_nothing_was_refused(seen: tuple[Granted, list[Call]]) -> None:
    assert [] == [call for call in seen[1] if not call.allowed and call.role not in STRANGERS]


def test_nothing_is_granted_that_is_not_used(
    seen: tuple[Granted, list[Call]], request: pytest.FixtureRequest
) -> None:
    if not whole_suite(request.session):
        pytest.skip("tells something after the whole suite only")
    permissions, calls = seen
    unused = {
        permission
        for permission, patterns in permissions.items()
        if not any(
            (call.role, call.action) == permission[:2]
            and any(fnmatchcase(call.arn, each) for each in patterns)
            for call in calls
        )
    }
    written = [" ".join(permission) for permission in sorted(unused)]
    never = [each for patterns in EXCUSED.values() for each in patterns]
    excuses = [*never, *(each for patterns in SELDOM.values() for each in patterns)]
    assert [] == [each for each in written if not any(fnmatchcase(each, e) for e in excuses)]
    assert [] == [e for e in never if not any(fnmatchcase(each, e) for each in written)]
