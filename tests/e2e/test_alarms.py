"""Alarms of the deployed stacks fire on their metrics, and tell which page to read.

The local AWS evaluates an alarm when somebody puts metrics. It takes the values of all dimensions
and periods together, and no missing value, so this shows the way from a metric to the topic, one
alarm after the other. When each fires and is silent: tests/infra/test_alarm_states.py.
"""

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from infra.alarms import BASIC, Alarm, runbook
from joblane.deployment.names import topic_name
from scripts.local.cloud import DEPLOYMENT, Cloud

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.client import CloudWatchClient

NOT_HERE = {"requeue-silent", "scaler-silent"}
"""They need a value that is missing."""

MADE = {"function-failed"}
"""Whose metric the local AWS writes itself."""

FIRED = [alarm for alarm in BASIC if alarm.id not in NOT_HERE | MADE]


class Told:
    """What the topic sends."""

    def __init__(self, cloud: Cloud) -> None:
        self._sqs = boto3.client("sqs", **cloud.ministack.root())
        self._sns = boto3.client("sns", **cloud.ministack.root())
        self._queue = self._sqs.create_queue(QueueName=f"alarms-{time.time_ns()}")["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        queue_arn = arn["Attributes"]["QueueArn"]
        policy = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": queue_arn}
        self._sqs.set_queue_attributes(
            QueueUrl=self._queue,
            Attributes={"Policy": json.dumps({"Version": "2012-10-17", "Statement": [policy]})},
        )
        topics = self._sns.list_topics()["Topics"]
        (topic,) = (t["TopicArn"] for t in topics if t["TopicArn"].endswith(topic_name(DEPLOYMENT)))
        self._subscription = self._sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=queue_arn, ReturnSubscriptionArn=True
        )["SubscriptionArn"]

    def of(self, alarm: str, timeout_s: float = 20) -> dict[str, Any]:
        """What is told of an alarm."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends:
            received = self._sqs.receive_message(
                QueueUrl=self._queue, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            for message in received.get("Messages", []):
                text = json.loads(message["Body"])["Message"]
                told: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
                if told.get("AlarmName") == alarm:
                    return told
        raise AssertionError(f"{alarm}: nothing was told")

    def close(self) -> None:
        """End the subscription."""
        self._sns.unsubscribe(SubscriptionArn=self._subscription)
        self._sqs.delete_queue(QueueUrl=self._queue)


@pytest.fixture(name="told", scope="module")
def _told(cloud: Cloud) -> Iterator[Told]:
    told = Told(cloud)
    yield told
    told.close()


@pytest.fixture(name="cloudwatch", scope="module")
def _cloudwatch(cloud: Cloud) -> "CloudWatchClient":
    return boto3.client("cloudwatch", **cloud.ministack.root())


def find_alarm(cloudwatch: "CloudWatchClient", alarm: Alarm, of: str = "") -> Any:
    """The first one of the deployment's alarms with this id; `of` ends its name."""
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmNamePrefix=f"{DEPLOYMENT}-{alarm.id}"
    )
    found = [
        each
        for page in pages
        for each in page["MetricAlarms"]
        if each["AlarmDescription"] == runbook(alarm.why, alarm.id)
        and each["AlarmName"].endswith(of)
    ]
    assert found, f"{alarm.id}: is not deployed"
    return found[0]


def quiet(cloudwatch: "CloudWatchClient", name: str) -> None:
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="OK", StateReason="a test begins")


def put(cloudwatch: "CloudWatchClient", alarm: Any, value: float) -> None:
    datum: Any = {
        "MetricName": alarm["MetricName"],
        "Dimensions": alarm["Dimensions"],
        "Value": value,
    }
    cloudwatch.put_metric_data(Namespace=alarm["Namespace"], MetricData=[datum])


@pytest.mark.parametrize("row", FIRED, ids=lambda row: row.id)
def test_an_alarm_fires_and_names_its_page(cloudwatch: "CloudWatchClient", told: Told, row: Alarm):
    alarm = find_alarm(cloudwatch, row)
    name = alarm["AlarmName"]
    quiet(cloudwatch, name)
    put(cloudwatch, alarm, row.threshold + 1)
    assert "ALARM" == find_alarm(cloudwatch, row)["StateValue"]
    message = told.of(name)
    assert ("ALARM", runbook(row.why, row.id)) == (
        message["NewStateValue"],
        message["AlarmDescription"],
    )
    quiet(cloudwatch, name)


def test_a_function_that_fails_is_an_alarm(
    cloud: Cloud, cloudwatch: "CloudWatchClient", told: Told
):
    """The function `dead_letter` is called with what is no batch of messages."""
    (row,) = (alarm for alarm in BASIC if alarm.id in MADE)
    alarm = find_alarm(cloudwatch, row, of="dead_letter")
    function = alarm["Dimensions"][0]["Value"]
    quiet(cloudwatch, alarm["AlarmName"])
    client = boto3.client("lambda", **cloud.ministack.root())
    for _ in range(row.breaching):
        assert "FunctionError" in client.invoke(FunctionName=function, Payload=b"{}")
    # Lambda's own metrics are looked at when somebody puts another one.
    cloudwatch.put_metric_data(Namespace="tests", MetricData=[{"MetricName": "Looked", "Value": 1}])
    assert "ALARM" == find_alarm(cloudwatch, row, of="dead_letter")["StateValue"]
    assert "ALARM" == told.of(alarm["AlarmName"])["NewStateValue"]
    quiet(cloudwatch, alarm["AlarmName"])
