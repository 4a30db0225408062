"""Removes the scale-in protection of a deployment's instances, and sets it again.

CloudFormation deletes an Auto Scaling group by setting its sizes to 0, and waits until instances
end. Those that are protected from scale-in do not end, so that it fails after an hour.

The order settles the race with whatever starts instances (the function `scaler`, Auto Scaling):

1. The setting of the group: an instance that is launched from here on is unprotected.
2. The instances that there are, until a look that begins after 1 finds none that is protected.
   One that still starts has the protection that was set before; it can be changed when it is in
   service. One that left service in between makes the call fail, and is ending: the next look
   does not find it.

Agents do not set protection: their role does not allow it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from joblane.deployment.names import DEPLOYMENT_TAG

PAGE = 50
"""Most instances of one SetInstanceProtection (AWS's own limit)."""

CHANGEABLE = frozenset({"InService", "EnteringStandby", "Standby"})
"""States of instances whose protection Auto Scaling changes; it refuses the call for others."""

STARTS = "Pending"
"""Beginning of the states of an instance that will be in service."""

MOVED = frozenset({"ValidationError", "ResourceContention"})
"""Error codes of a call for an instance that left service, or of a group that just changes."""

START_S = 600.0
"""Longest wait for instances that start: an image boots within a minute or two."""

LOOK_EVERY_S = 1.0

NAMED = 5
"""Most instances that an error names."""


@dataclass(frozen=True)
class Instance:
    """An instance of a group."""

    id: str
    state: str
    """Its state in the group's life cycle, such as `InService`."""
    protected: bool


@dataclass(frozen=True)
class DeployedGroup:
    """An Auto Scaling group."""

    name: str
    protects_new: bool
    instances: tuple[Instance, ...]

    def differing(self, *, protected: bool) -> list[Instance]:
        """Return the instances that should be protected or not, and are otherwise.

        Without those that end: their protection no longer matters.
        """
        return [
            each
            for each in self.instances
            if each.protected != protected
            and (each.state in CHANGEABLE or each.state.startswith(STARTS))
        ]


def pages(instances: Sequence[Instance]) -> list[list[str]]:
    """Return the ids of those whose protection can be changed now, at most PAGE a list."""
    ids = [each.id for each in instances if each.state in CHANGEABLE]
    return [ids[n : n + PAGE] for n in range(0, len(ids), PAGE)]


class DeployedGroups:
    """The Auto Scaling groups of a deployment."""

    def __init__(self, autoscaling: Any, deployment: str) -> None:
        self._autoscaling = autoscaling
        self._deployment = deployment

    def read(self) -> list[DeployedGroup]:
        """Return the groups that have the deployment's tag, but for those that are being deleted.

        Raises ClientError.
        """
        found = self._autoscaling.get_paginator("describe_auto_scaling_groups").paginate()
        return [_group(each) for page in found for each in self._own(page["AutoScalingGroups"])]

    def protect_new(self, group: str, *, protected: bool) -> None:
        """Set whether instances that a group launches are protected."""
        self._autoscaling.update_auto_scaling_group(
            AutoScalingGroupName=group, NewInstancesProtectedFromScaleIn=protected
        )

    def protect(self, group: str, ids: list[str], *, protected: bool) -> None:
        """Set the protection of up to PAGE instances. Raises ClientError."""
        self._autoscaling.set_instance_protection(
            AutoScalingGroupName=group, InstanceIds=ids, ProtectedFromScaleIn=protected
        )

    def _own(self, described: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for group in described:
            tags = {tag["Key"]: tag["Value"] for tag in group.get("Tags", [])}
            if tags.get(DEPLOYMENT_TAG) == self._deployment and not group.get("Status"):
                yield group


def _group(described: dict[str, Any]) -> DeployedGroup:
    instances = (
        Instance(each["InstanceId"], each["LifecycleState"], each["ProtectedFromScaleIn"])
        for each in described.get("Instances", [])
    )
    return DeployedGroup(
        described["AutoScalingGroupName"],
        described["NewInstancesProtectedFromScaleIn"],
        tuple(instances),
    )


@dataclass(frozen=True)
class Clock:
    """Seconds that rise, and a way to let some pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def set_protection(
    groups: DeployedGroups, names: Sequence[str], *, protected: bool, clock: Clock
) -> int:
    """Protect the groups of these names, or remove their protection; returns how many instances.

    Raises ClientError, and TimeoutError when an instance does not come into service.
    """
    for name in names:
        groups.protect_new(name, protected=protected)
    changed: set[str] = set()
    ends = clock.now() + START_S
    while left := _differing(groups, names, protected=protected):
        if clock.now() > ends:
            stuck = [each.id for instances in left.values() for each in instances]
            said = f"{', '.join(stuck[:NAMED])}{', ...' if len(stuck) > NAMED else ''}"
            raise TimeoutError(f"not in service within {START_S:.0f} s: {said}")
        for group, instances in left.items():
            for ids in pages(instances):
                if _protect_page(groups, group, ids, protected=protected):
                    changed.update(ids)
        clock.sleep(LOOK_EVERY_S)
    return len(changed)


def _protect_page(groups: DeployedGroups, group: str, ids: list[str], *, protected: bool) -> bool:
    """Set the protection of a page; False when an instance has left service since it was read."""
    try:
        groups.protect(group, ids, protected=protected)
    except ClientError as error:
        if error.response["Error"]["Code"] not in MOVED:
            raise
        return False
    return True


def _differing(
    groups: DeployedGroups, names: Sequence[str], *, protected: bool
) -> dict[str, list[Instance]]:
    found = {
        group.name: group.differing(protected=protected)
        for group in groups.read()
        if group.name in names
    }
    return {name: instances for name, instances in found.items() if instances}
