"""A stand-in for fleets whose instances are protected from scale-in, as Auto Scaling documents it.

It has as much of Auto Scaling and CloudFormation as `scripts/cdk destroy` uses. Before each of its
calls something else may happen, as between two calls to AWS.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from joblane.deployment.names import DEPLOYMENT_TAG, fleet_stack_name

MOST_IDS = 50
CHANGEABLE = {"InService", "EnteringStandby", "Standby"}


def make_refusal(code: str, operation: str, message: str = "") -> ClientError:
    """Make the error that boto3 raises for a refused call."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class Launched:
    """An instance."""

    id: str
    state: str
    protected: bool


@dataclass
class Made:
    """A group, and its stack."""

    name: str
    deployment: str
    protects_new: bool = True
    instances: list[Launched] = field(default_factory=list)
    stack_status: str = "UPDATE_COMPLETE"

    def launch(self, state: str = "Pending") -> Launched:
        """Launch an instance, which has the group's setting of now."""
        new = Launched(f"i-{self.name}-{len(self.instances)}", state, self.protects_new)
        self.instances.append(new)
        return new

    @property
    def alive(self) -> list[Launched]:
        """Those that do not end."""
        return [each for each in self.instances if not each.state.startswith("Terminat")]


class ProtectedFleets:
    """An account with such groups; it is the client of Auto Scaling and of CloudFormation."""

    def __init__(self, *groups: Made) -> None:
        self.groups = {each.name: each for each in groups}
        self.calls: list[str] = []
        self.before: Callable[[int], None] = lambda _number: None
        """Called with the number of the call that follows."""
        self.now = 0.0

    def _called(self, operation: str) -> None:
        self.before(len(self.calls))
        self.calls.append(operation)

    def sleep(self, seconds: float) -> None:
        """Instances boot meanwhile."""
        self.now += seconds
        for group in self.groups.values():
            for each in group.alive:
                if each.state.startswith("Pending"):
                    each.state = "InService"

    def get_paginator(self, operation: str) -> "ProtectedFleets":
        """Be the paginator too."""
        assert "describe_auto_scaling_groups" == operation
        return self

    def paginate(self) -> Iterator[dict[str, Any]]:
        """Yield a page a group."""
        self._called("describe")
        for group in self.groups.values():
            instances = [
                {
                    "InstanceId": each.id,
                    "LifecycleState": each.state,
                    "ProtectedFromScaleIn": each.protected,
                }
                for each in group.instances
            ]
            described = {
                "AutoScalingGroupName": group.name,
                "NewInstancesProtectedFromScaleIn": group.protects_new,
                "Instances": instances,
                "Tags": [{"Key": DEPLOYMENT_TAG, "Value": group.deployment}],
            }
            yield {"AutoScalingGroups": [described]}

    def update_auto_scaling_group(self, **given: Any) -> None:
        """Change the setting for new instances."""
        self._called("update")
        group = self.groups[given["AutoScalingGroupName"]]
        group.protects_new = given["NewInstancesProtectedFromScaleIn"]

    def set_instance_protection(self, **given: Any) -> None:
        """Change all, or none if one is not in service."""
        self._called("protect")
        ids = given["InstanceIds"]
        there = {each.id: each for each in self.groups[given["AutoScalingGroupName"]].instances}
        if len(ids) > MOST_IDS:
            raise make_refusal("ValidationError", "SetInstanceProtection", "more than 50 ids")
        if any(there[each].state not in CHANGEABLE for each in ids):
            raise make_refusal("ValidationError", "SetInstanceProtection", "is not in InService")
        for each in ids:
            there[each].protected = given["ProtectedFromScaleIn"]

    def describe_stacks(self, **given: Any) -> dict[str, Any]:
        """Describe a fleet's stack."""
        self._called("stacks")
        for group in self.groups.values():
            if given["StackName"] == fleet_stack_name(group.deployment, group.name):
                return {"Stacks": [{"StackStatus": group.stack_status}]}
        raise make_refusal("ValidationError", "DescribeStacks", "the stack does not exist")

    def delete_stacks(self, deployment: str) -> None:
        """Delete the fleets' stacks: one with a protected instance waits, until it fails."""
        for group in [each for each in self.groups.values() if each.deployment == deployment]:
            if any(each.protected for each in group.alive):
                group.stack_status = "DELETE_FAILED"
            else:
                del self.groups[group.name]
