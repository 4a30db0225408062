"""The adapter for Auto Scaling by which the scaler reads and sizes groups.

With moto where it does what AWS does; its group refuses nothing and is never missing, so errors
are those that AWS documents, played by botocore's stubber.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from joblane.aws.clients import QUICK
from joblane.aws.fleet.auto_scaling import AutoScalingGroups, ScalingActivity, Size
from joblane.fleet.capacity import GroupState
from tests.support.aws import NAME, Cloud, OneEach, new_session

pytestmark = pytest.mark.usefixtures("moto")

GROUP = "joblane-main"


def make_group(aws: Cloud, name: str = GROUP, **values: Any) -> Any:
    """Make a group of moto; returns the client."""
    autoscaling = aws.clients.make("autoscaling")
    autoscaling.create_launch_configuration(
        LaunchConfigurationName=name, ImageId="ami-12c6146b", InstanceType="t3.micro"
    )
    given = {"MinSize": 1, "MaxSize": 9, "DesiredCapacity": 2, **values}
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchConfigurationName=name,
        AvailabilityZones=["us-east-1a"],
        NewInstancesProtectedFromScaleIn=True,
        **given,
    )
    return autoscaling


def instances(autoscaling: Any, name: str = GROUP) -> list[str]:
    """Ids of a group's instances."""
    answer = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    return [each["InstanceId"] for each in answer["AutoScalingGroups"][0]["Instances"]]


def test_a_group_is_read_with_its_sizes_instances_and_suspended_processes(aws: Cloud):
    autoscaling = make_group(aws)
    first, second = instances(autoscaling)
    autoscaling.enter_standby(
        AutoScalingGroupName=GROUP, InstanceIds=[second], ShouldDecrementDesiredCapacity=True
    )
    autoscaling.suspend_processes(
        AutoScalingGroupName=GROUP, ScalingProcesses=["Launch", "AZRebalance"]
    )
    (state,) = AutoScalingGroups(autoscaling, NAME).states([GROUP]).values()
    expected = {first: "InService", second: "Standby"}
    assert GroupState(1, 9, 1, expected, ("AZRebalance", "Launch")) == state
    assert 1 == state.in_service


def test_absent_groups_are_left_out_and_more_than_a_request_takes_are_read(aws: Cloud):
    autoscaling = make_group(aws)
    make_group(aws, "joblane-other", DesiredCapacity=1)
    absent = [f"joblane-absent-{n}" for n in range(150)]
    groups = AutoScalingGroups(autoscaling, NAME)
    names = [GROUP, *absent, "joblane-other"]
    assert {GROUP, "joblane-other"} == groups.states(names).keys()
    assert {GROUP: Size(2, 2), "joblane-other": Size(1, 1)} == groups.sizes(names)
    assert {} == groups.states([])


def test_a_raised_group_launches_protected_instances(aws: Cloud):
    autoscaling = make_group(aws)
    before = instances(autoscaling)
    AutoScalingGroups(autoscaling, NAME).set_desired(GROUP, 5)
    (group,) = autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert 5 == group["DesiredCapacity"]
    assert [True] * 5 == [each["ProtectedFromScaleIn"] for each in group["Instances"]]
    assert set(before) < {each["InstanceId"] for each in group["Instances"]}


def test_every_group_of_this_deployment_and_none_of_another_is_found(aws: Cloud):
    autoscaling = aws.clients.make("autoscaling")
    for name, deployment in ((GROUP, NAME), ("another-main", "another")):
        tags = {"joblane:fleet": name, "joblane:deployment": deployment}
        make_group(
            aws,
            name,
            Tags=[
                {"Key": key, "Value": value, "PropagateAtLaunch": True}
                for key, value in tags.items()
            ],
        )
    first, second = instances(autoscaling)
    autoscaling.set_instance_health(InstanceId=second, HealthStatus="Unhealthy")
    (found,) = AutoScalingGroups(autoscaling, NAME).read_all()
    assert (GROUP, (first,)) == (found.name, found.instances)


@pytest.fixture(name="stubbed")
def _stubbed(aws: Cloud) -> Iterator[tuple[Stubber, AutoScalingGroups]]:
    client = OneEach(new_session()).make("autoscaling")
    with Stubber(client) as stubber:
        yield stubber, AutoScalingGroups(client, NAME)
        stubber.assert_no_pending_responses()


def request(desired: int) -> dict[str, Any]:
    """What the adapter sends."""
    return {"AutoScalingGroupName": GROUP, "DesiredCapacity": desired, "HonorCooldown": False}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ValidationError", "AutoScalingGroup name not found - null"),
        ("ValidationError", "New SetDesiredCapacity value 12 is above max value 9"),
        ("ScalingActivityInProgress", "Scaling activity is in progress"),
        ("AccessDenied", "not authorized to perform autoscaling:SetDesiredCapacity"),
        ("Throttling", "Rate exceeded"),
    ],
)
def test_a_refused_size_is_the_callers_error(
    stubbed: tuple[Stubber, AutoScalingGroups], code: str, message: str
):
    stubber, groups = stubbed
    stubber.add_client_error("set_desired_capacity", code, message, expected_params=request(12))
    with pytest.raises(ClientError, match=message) as raised:
        groups.set_desired(GROUP, 12)
    assert code == raised.value.response["Error"]["Code"]


def test_activities_are_read_newest_first_with_the_error_of_a_failed_one(
    stubbed: tuple[Stubber, AutoScalingGroups],
):
    """Moto keeps none."""
    stubber, groups = stubbed
    begun = datetime(2027, 1, 15, 8, 0, 0, 250_000, tzinfo=UTC)
    activity = {
        "ActivityId": "1",
        "AutoScalingGroupName": GROUP,
        "Cause": "a user request",
        "StartTime": begun,
        "StatusCode": "Failed",
    }
    failed = {**activity, "StatusMessage": "Could not launch", "Description": "Launching"}
    answer = {"Activities": [failed, {**activity, "StatusCode": "Successful"}]}
    expected = {"AutoScalingGroupName": GROUP, "MaxRecords": 2}
    stubber.add_response("describe_scaling_activities", answer, expected)
    at_ms = 1_800_000_000_250
    assert [
        ScalingActivity(at_ms, "Failed", "Launching", "Could not launch"),
        ScalingActivity(at_ms, "Successful", "", "a user request"),
    ] == groups.activities(GROUP, 2)


def test_a_missing_group_has_no_activities_to_read(stubbed: tuple[Stubber, AutoScalingGroups]):
    stubber, groups = stubbed
    stubber.add_client_error("describe_scaling_activities", "ValidationError", "name not found")
    with pytest.raises(ClientError, match="name not found"):
        groups.activities(GROUP, 20)


def answers(aws: Cloud, *statuses: int) -> tuple[AutoScalingGroups, list[str]]:
    """Groups of moto, whose first requests are answered with these; and what was requested."""
    sent: list[str] = []
    left = list(statuses)

    def answer(request: Any, **_: Any) -> Any:
        sent.append(request.headers["amz-sdk-request"].decode())
        return throttled(left.pop(0)) if left else None

    clients = OneEach(new_session())
    client = clients.make("autoscaling", QUICK)
    client.meta.events.register_first("before-send.autoscaling.*", answer)
    make_group(aws)
    return AutoScalingGroups(client, NAME), sent


def throttled(status: int) -> Any:
    """An answer of Auto Scaling's endpoint."""
    code = "Throttling" if status == 400 else "ServiceUnavailable"
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>Rate exceeded</Message></Error>"
    body += "<RequestId>1</RequestId></ErrorResponse>"

    class Response(AWSResponse):
        """One that has been read."""

        content = body.encode()

    return Response("https://autoscaling.test", status, HTTPHeaders(), None)


@pytest.mark.parametrize("status", [400, 503])
def test_a_throttled_request_is_repeated_by_the_client(aws: Cloud, status: int):
    groups, sent = answers(aws, status)
    assert 2 == groups.states([GROUP])[GROUP].desired
    assert 2 == len(sent)


def test_groups_are_those_of_the_deployment_and_their_instances_in_service(aws: Cloud):
    autoscaling = aws.clients.make("autoscaling")
    autoscaling.create_launch_configuration(
        LaunchConfigurationName="any", ImageId="ami-12c6146b", InstanceType="t3.micro"
    )
    for name, deployment in ((GROUP, NAME), ("other-main", "other")):
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchConfigurationName="any",
            MinSize=0,
            MaxSize=4,
            DesiredCapacity=2,
            AvailabilityZones=["us-east-1a"],
            Tags=[
                {"Key": key, "Value": value, "PropagateAtLaunch": True}
                for key, value in (("joblane:fleet", name), ("joblane:deployment", deployment))
            ],
        )
    groups = AutoScalingGroups(autoscaling, NAME)
    (group,) = groups.read_all()
    assert (GROUP, 2) == (group.name, len(group.instances))
    groups.replace(group.instances[0])
    (after,) = groups.read_all()
    assert group.instances[0] not in after.instances
