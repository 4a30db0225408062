"""Three lanes and three dead-letter queues a declared queue."""

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
DEAD_LETTERS = {lane.replace("-lane-", "-dlq-") for lane in LANES}


def queues(deployment: Deployment) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        queue["Properties"]["QueueName"]: (logical_id, queue["Properties"])
        for logical_id, queue in deployment.resources("AWS::SQS::Queue", STACK).items()
    }


def test_there_are_as_many_as_declared(production: Deployment, laptop: Deployment) -> None:
    assert set(queues(laptop)) == LANES | DEAD_LETTERS
    assert len(queues(production)) == 6


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


def test_a_lane_gives_up_after_1000_receives_into_its_own_dead_letters(laptop: Deployment) -> None:
    found = queues(laptop)
    for lane in LANES:
        dead_letters, _ = found[lane.replace("-lane-", "-dlq-")]
        assert {
            "deadLetterTargetArn": {"Fn::GetAtt": [dead_letters, "Arn"]},
            "maxReceiveCount": 1000,
        } == found[lane][1]["RedrivePolicy"]
    for dead_letter in DEAD_LETTERS:
        assert "RedrivePolicy" not in found[dead_letter][1]


def test_every_queue_refuses_plain_http(laptop: Deployment) -> None:
    refusing = set()
    for policy in laptop.properties("AWS::SQS::QueuePolicy", STACK):
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert (
            statement["Effect"],
            statement["Action"],
            statement["Condition"],
        ) == ("Deny", "sqs:*", {"Bool": {"aws:SecureTransport": "false"}})
        refusing |= {reference["Ref"] for reference in policy["Queues"]}
    assert {logical_id for logical_id, _ in queues(laptop).values()} == refusing
