"""Adapter for Auto Scaling: the groups of a deployment's fleets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.deployment.names import DEPLOYMENT_TAG, FLEET_TAG
from joblane.fleet.capacity import GroupState

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient

_MOST_NAMES = 100  # of a request


@dataclass(frozen=True, slots=True)
class AutoScalingGroup:
    """An Auto Scaling group of a fleet."""

    name: str
    instances: tuple[str, ...]
    """Ids of the instances that are in service and count as healthy; not those that start, end, or
    that an operator has put in standby."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many instances a group has."""

    desired: int
    in_service: int
    """Those that are in service, healthy or not."""


@dataclass(frozen=True, slots=True)
class ScalingActivity:
    """What a group did, or tried."""

    at_ms: int
    """When it began, in Unix milliseconds."""
    status: str
    """`Successful`, `Failed`, `InProgress` or another status of Auto Scaling."""
    description: str
    cause: str | None
    """Why; of one that failed, the error."""


class AutoScalingGroups:
    """The groups of one deployment's fleets."""

    def __init__(self, client: "AutoScalingClient", deployment: str) -> None:
        self._client = client
        self._deployment = deployment

    def read_all(self) -> Iterator[AutoScalingGroup]:
        """Read all groups, a request for every hundred of the account's Joblane groups."""
        pages = self._client.get_paginator("describe_auto_scaling_groups").paginate(
            Filters=[{"Name": "tag-key", "Values": [FLEET_TAG]}],
            PaginationConfig={"PageSize": 100},
        )
        for page in pages:
            for group in page["AutoScalingGroups"]:
                tags = {tag.get("Key"): tag.get("Value") for tag in group.get("Tags", [])}
                if tags.get(DEPLOYMENT_TAG) == self._deployment:
                    yield AutoScalingGroup(
                        group["AutoScalingGroupName"],
                        tuple(
                            instance["InstanceId"]
                            for instance in group.get("Instances", [])
                            if instance["LifecycleState"] == "InService"
                            and instance["HealthStatus"].lower() == "healthy"
                        ),
                    )

    def replace(self, instance: str) -> None:
        """Have an instance terminated and replaced, after its lifecycle hook.

        As unhealthy: an operator keeps it by suspending the group's process ReplaceUnhealthy.
        """
        self._client.set_instance_health(
            InstanceId=instance, HealthStatus="Unhealthy", ShouldRespectGracePeriod=False
        )

    def sizes(self, names: Sequence[str]) -> dict[str, Size]:
        """Read the sizes of groups by name, a hundred in a request; absent ones are left out."""
        found: dict[str, Size] = {}
        for start in range(0, len(names), _MOST_NAMES):
            answer = self._client.describe_auto_scaling_groups(
                AutoScalingGroupNames=names[start : start + _MOST_NAMES], MaxRecords=_MOST_NAMES
            )
            for group in answer["AutoScalingGroups"]:
                states = [each["LifecycleState"] for each in group.get("Instances", [])]
                name, desired = group["AutoScalingGroupName"], group["DesiredCapacity"]
                found[name] = Size(desired, states.count("InService"))
        return found

    def states(self, names: Sequence[str]) -> dict[str, GroupState]:
        """Read groups by name, a hundred in a request; absent ones are left out."""
        found: dict[str, GroupState] = {}
        for start in range(0, len(names), _MOST_NAMES):
            answer = self._client.describe_auto_scaling_groups(
                AutoScalingGroupNames=names[start : start + _MOST_NAMES], MaxRecords=_MOST_NAMES
            )
            for group in answer["AutoScalingGroups"]:
                processes = group.get("SuspendedProcesses", [])
                found[group["AutoScalingGroupName"]] = GroupState(
                    least=group["MinSize"],
                    most=group["MaxSize"],
                    desired=group["DesiredCapacity"],
                    instances={
                        each["InstanceId"]: each["LifecycleState"]
                        for each in group.get("Instances", [])
                    },
                    suspended=tuple(sorted(each.get("ProcessName", "") for each in processes)),
                )
        return found

    def set_desired(self, name: str, desired: int) -> None:
        """Set the desired capacity of a group, without waiting for a cooldown."""
        self._client.set_desired_capacity(
            AutoScalingGroupName=name, DesiredCapacity=desired, HonorCooldown=False
        )

    def activities(self, name: str, most: int) -> list[ScalingActivity]:
        """Read the newest activities of a group, newest first. Raises Unavailable if it is gone."""
        answer = self._client.describe_scaling_activities(
            AutoScalingGroupName=name, MaxRecords=most
        )
        return [
            ScalingActivity(
                at_ms=int(each["StartTime"].timestamp() * 1000),
                status=each["StatusCode"],
                description=each.get("Description", ""),
                cause=each.get("StatusMessage") or each.get("Cause"),
            )
            for each in answer["Activities"]
        ]
