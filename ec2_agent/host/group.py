"""Adapter for the Auto Scaling group that an agent's instance belongs to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from ec2_agent.settings import Settings
from joblane.deployment.names import LEAVING_HOOK, fleet_name

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient


@dataclass(frozen=True, slots=True)
class Group:
    """Completes the lifecycle action of the instance's termination."""

    client: "AutoScalingClient"
    settings: Settings

    async def complete_lifecycle_action(self) -> None:
        """Let the group terminate this instance; without it the hook's timeout does.

        Does nothing if the agent belongs to no fleet.
        """
        fleet = self.settings.fleet
        if fleet is None:
            return
        try:
            await in_thread(
                lambda: self.client.complete_lifecycle_action(
                    AutoScalingGroupName=fleet_name(self.settings.descriptor.name, fleet),
                    LifecycleHookName=LEAVING_HOOK,
                    InstanceId=self.settings.name,
                    LifecycleActionResult="CONTINUE",
                ),
                "complete lifecycle action",
            )
        except AWS_ERRORS as error:
            events.lifecycle_action_failed(error)
