"""Fleets as the role platform sees them: what joblane.toml says, and what Auto Scaling does."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from functions.status.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.deployment.names import FLEET_RECORD, table_name
from joblane.fleet.record import FleetRecord
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud, OneEach
from tests.support.fleet import FLEET as PLAIN
from tests.support.requests import Api

pytestmark = pytest.mark.usefixtures("moto")  # its groups

NOW = 1_800_014_400
FLEET = {**PLAIN, "queues": ["default", "bulk"], "price_per_hour": {"c7g.large": 0.0725}}


def api(clients: Clients, *fleets: object, client_id: str = "client-platform") -> Api:
    environment = {**FUNCTION_ENVIRONMENT, "JOBLANE_FLEETS": json.dumps(fleets)}
    return Api(build(Settings.model_validate(environment), clients, lambda: NOW), client_id)


def make_group(aws: Cloud, name: str) -> None:
    autoscaling = aws.clients.make("autoscaling")
    autoscaling.create_launch_configuration(
        LaunchConfigurationName=name, ImageId="ami-12c6146b", InstanceType="t3.micro"
    )
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchConfigurationName=name,
        MinSize=0,
        MaxSize=4,
        DesiredCapacity=2,
        AvailabilityZones=["us-east-1a"],
    )


def test_a_fleet_has_the_figures_of_its_group(aws: Cloud):
    make_group(aws, "joblane-main")
    make_group(aws, "other-main")
    status, page = api(aws.clients, FLEET)("GET", "/v1/fleets")
    assert (200, 1, None) == (status, page["limit"], page["next"])
    figures = {"desired": 2, "in_service": 2, "activities": [], "note": None, "decision": None}
    assert [{**FLEET, **figures}] == page["entries"]


def test_a_fleet_without_a_group_says_so(aws: Cloud):
    make_group(aws, "joblane-main")
    second = {**FLEET, "name": "spare", "price_per_hour": {}}
    _, page = api(aws.clients, FLEET, second)("GET", "/v1/fleets")
    main, spare = page["entries"]
    assert (2, None) == (main["desired"], main["note"])
    assert (None, None, []) == (spare["desired"], spare["in_service"], spare["activities"])
    assert spare["note"].startswith("there is no Auto Scaling group joblane-spare")


def test_a_deployment_without_fleets_asks_nobody(aws: Cloud):
    assert (200, []) == (
        (answer := api(aws.clients)("GET", "/v1/fleets"))[0],
        answer[1]["entries"],
    )


@pytest.fixture(name="autoscaling")
def _autoscaling(clients: Clients) -> Iterator[Stubber]:
    with Stubber(clients.make("autoscaling")) as stubber:
        yield stubber


@pytest.fixture(name="clients")
def _clients(aws: Cloud) -> Clients:
    return OneEach(aws.session())


def sizes(stubber: Stubber) -> None:
    group: dict[str, Any] = {
        "AutoScalingGroupName": "joblane-main",
        "MinSize": 0,
        "MaxSize": 4,
        "DesiredCapacity": 2,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": datetime(2026, 11, 23, tzinfo=UTC),
        "Instances": [
            {
                "InstanceId": f"i-{n}",
                "AvailabilityZone": "us-east-1a",
                "LifecycleState": state,
                "HealthStatus": "Healthy",
                "ProtectedFromScaleIn": False,
            }
            for n, state in enumerate(("InService", "Pending", "Terminating:Wait"))
        ],
    }
    stubber.add_response(
        "describe_auto_scaling_groups",
        {"AutoScalingGroups": [group]},
        {"AutoScalingGroupNames": ["joblane-main"], "MaxRecords": 100},
    )


def test_activities_are_the_groups_with_the_error_of_a_failed_one(
    autoscaling: Stubber, clients: Clients
):
    """Moto knows no activities."""
    sizes(autoscaling)
    begun = datetime(2026, 11, 23, 4, 5, 6, 789000, tzinfo=UTC)
    every = {
        "AutoScalingGroupName": "joblane-main",
        "StartTime": begun,
        "Description": "Launching a new EC2 instance",
        "Cause": "a difference between desired and actual capacity",
    }
    activities = [
        {**every, "ActivityId": "1", "StatusCode": "Failed", "StatusMessage": "no capacity"},
        {**every, "ActivityId": "2", "StatusCode": "InProgress"},
    ]
    autoscaling.add_response(
        "describe_scaling_activities",
        {"Activities": activities},
        {"AutoScalingGroupName": "joblane-main", "MaxRecords": 20},
    )
    _, page = api(clients, FLEET)("GET", "/v1/fleets")
    (fleet,) = page["entries"]
    assert (2, 1) == (fleet["desired"], fleet["in_service"])
    shown = {"at": "2026-11-23T04:05:06.789Z", "description": "Launching a new EC2 instance"}
    assert [
        {**shown, "status": "Failed", "cause": "no capacity"},
        {
            **shown,
            "status": "InProgress",
            "cause": "a difference between desired and actual capacity",
        },
    ] == fleet["activities"]


def test_what_cannot_be_read_is_null_and_the_rest_is_shown(autoscaling: Stubber, clients: Clients):
    autoscaling.add_client_error("describe_auto_scaling_groups", "Throttling")
    status, page = api(clients, FLEET)("GET", "/v1/fleets")
    (fleet,) = page["entries"]
    assert (200, None, "c7g.large") == (status, fleet["desired"], fleet["instance_types"][0])
    assert "cannot be read" in fleet["note"]
    sizes(autoscaling)
    autoscaling.add_client_error("describe_scaling_activities", "Throttling")
    (fleet,) = api(clients, FLEET)("GET", "/v1/fleets")[1]["entries"]
    assert (2, [], None) == (fleet["desired"], fleet["activities"], fleet["note"])


def test_fleets_are_for_the_role_platform(aws: Cloud):
    assert 403 == api(aws.clients, FLEET, client_id="client-acme")("GET", "/v1/fleets")[0]


RECORD = FleetRecord(
    decided_ms=NOW * 1000 - 60_000,
    wanted=40,
    desired=4,
    max=4,
    in_service=2,
    alive=2,
    busy=2,
    booting=2,
    backlog=33,
    limit="max",
    raised_ms=NOW * 1000 - 120_000,
)


def write_decision(aws: Cloud, record: FleetRecord) -> None:
    records(aws).write("main", record)


def records(aws: Cloud) -> FleetRecords:
    return FleetRecords(aws.clients.make("dynamodb"), table_name(NAME, "settings"))


def test_a_fleet_has_what_the_scaler_decided_and_why(aws: Cloud):
    write_decision(aws, RECORD)
    (fleet,) = api(aws.clients, FLEET)("GET", "/v1/fleets")[1]["entries"]
    reasons = fleet["decision"].pop("reasons")
    assert {
        "at": "2027-01-15T11:59:00.000Z",
        "wanted": 40,
        "backlog": 33,
        "max": 4,
        "alive": 2,
        "busy": 2,
        "booting": 2,
        "raised_at": "2027-01-15T11:58:00.000Z",
    } == fleet["decision"]
    assert ["fleet_booting", "fleet_max"] == [reason["code"] for reason in reasons]
    assert "raise max_size of fleets.main" in reasons[1]["text"]


def test_a_record_that_is_none_is_left_out_until_the_scaler_writes_it_anew(aws: Cloud):
    write_decision(aws, RECORD)
    aws.clients.make("dynamodb").update_item(
        TableName=table_name(NAME, "settings"),
        Key={"queue": {"S": f"{FLEET_RECORD}main"}},
        UpdateExpression="SET wanted = :nothing",
        ExpressionAttributeValues={":nothing": {"S": "many"}},
    )
    status, page = api(aws.clients, FLEET)("GET", "/v1/fleets")
    assert (200, None) == (status, page["entries"][0]["decision"])
    assert records(aws).read("main") is None
    write_decision(aws, RECORD)
    assert RECORD == records(aws).read("main")


def test_records_that_cannot_be_read_leave_the_rest(aws: Cloud):
    make_group(aws, "joblane-main")
    aws.clients.make("dynamodb").delete_table(TableName=table_name(NAME, "settings"))
    (fleet,) = api(aws.clients, FLEET)("GET", "/v1/fleets")[1]["entries"]
    assert (2, None) == (fleet["desired"], fleet["decision"])
    assert "what the function scaler decided cannot be read" in fleet["note"]
