"""Adapter for Auto Scaling: the groups of a deployment's fleets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.deployment.names import DEPLOYMENT_TAG, FLEET_TAG

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient


@dataclass(frozen=True, slots=True)
class Group:
    """An Auto Scaling group of a fleet."""

    name: str
    instances: tuple[str, ...]
    """Ids of the instances that are in service and count as healthy; not those that start, end, or
    that an operator has put in standby."""


class Groups:
    """The groups of one deployment's fleets."""

    def __init__(self, client: "AutoScalingClient", deployment: str) -> None:
        self._client = client
        self._deployment = deployment

    def every(self) -> Iterator[Group]:
        """Read all groups, a request for every hundred of the account's Joblane groups."""
        pages = self._client.get_paginator("describe_auto_scaling_groups").paginate(
            Filters=[{"Name": "tag-key", "Values": [FLEET_TAG]}],
            PaginationConfig={"PageSize": 100},
        )
        for page in pages:
            for group in page["AutoScalingGroups"]:
                tags = {tag.get("Key"): tag.get("Value") for tag in group.get("Tags", [])}
                if tags.get(DEPLOYMENT_TAG) == self._deployment:
                    yield Group(
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
