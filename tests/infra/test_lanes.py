"""Three lanes a declared queue, and one dead-letter queue."""

import json
from typing import Any

from infra.lanes import stack_of
from tests.infra.synthesis import Deployment

STACK = f"lanes-{stack_of('default')}"
"""The one that has the lanes of both queues."""

LANES = {
    f"joblane-lane-{queue}_{lane}"
    for queue in ("default", "bulk")
    for lane in ("high", "default", "low")
}
FIRST = "lanes"
"""The stack with the dead-letter queue."""


def queues(deployment: Deployment) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        queue["Properties"]["QueueName"]: (logical_id, queue["Properties"])
        for stack in {STACK, FIRST}
        for logical_id, queue in deployment.resources("AWS::SQS::Queue", stack).items()
    }


def test_there_are_as_many_as_declared(production: Deployment, laptop: Deployment) -> None:
    assert set(queues(laptop)) == LANES | {"joblane-dlq"}
    assert len(queues(production)) == 3 + 1


def test_every_queue_keeps_14_days_waits_20_s_and_hides_120_s(laptop: Deployment) -> None:
    for name, (_, queue) in queues(laptop).items():
        assert (name, 14 * 24 * 3600, 20, 120, True) == (
            name,
            queue["MessageRetentionPeriod"],
            queue["ReceiveMessageWaitTimeSeconds"],
            queue["VisibilityTimeout"],
            queue["SqsManagedSseEnabled"],
        )
        assert "FifoQueue" not in queue


def test_a_lane_gives_up_after_1000_receives_into_the_dead_letters(laptop: Deployment) -> None:
    found = queues(laptop)
    for lane in LANES:
        policy = found[lane][1]["RedrivePolicy"]
        assert 1000 == policy["maxReceiveCount"]
        assert str(policy["deadLetterTargetArn"]).endswith(":joblane-dlq']]}")
    _, letters = found["joblane-dlq"]
    # It would name ten sources at most; without it all queues of the account may use it.
    assert not {"RedrivePolicy", "RedriveAllowPolicy"} & set(letters)


def test_the_dead_letter_queue_is_there_before_the_lanes_and_after_them(
    laptop: Deployment,
) -> None:
    """SQS makes a lane only if its dead-letter queue exists."""
    manifest = json.loads((laptop.folder / "cdk.out/manifest.json").read_text(encoding="utf-8"))
    assert f"joblane-{FIRST}" in manifest["artifacts"][f"joblane-{STACK}"]["dependencies"]


def test_every_queue_refuses_plain_http(laptop: Deployment) -> None:
    refusing = set()
    policies = [
        policy
        for stack in (STACK, FIRST)
        for policy in laptop.properties("AWS::SQS::QueuePolicy", stack)
    ]
    for policy in policies:
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert (
            statement["Effect"],
            statement["Action"],
            statement["Condition"],
        ) == ("Deny", "sqs:*", {"Bool": {"aws:SecureTransport": "false"}})
        refusing |= {reference["Ref"] for reference in policy["Queues"]}
    assert {logical_id for logical_id, _ in queues(laptop).values()} == refusing
