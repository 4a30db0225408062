"""The Auto Scaling group that an agent's instance belongs to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import LifecycleActionFailed
from ec2_agent.log_event import tell
from ec2_agent.settings import Settings
from joblane.names import LEAVING_HOOK, fleet_name

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient


@dataclass(frozen=True, slots=True)
class Group:
    """Tells the group what it waits for."""

    client: "AutoScalingClient"
    settings: Settings

    async def let_go(self) -> None:
        """Let the group end this instance: nothing runs here any more.

        It waits for this, and goes on by itself after the lifecycle hook's timeout. An agent of
        no fleet has no group to tell.
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
                "let the group go on",
            )
        except (BotoCoreError, ClientError) as error:
            tell(LifecycleActionFailed(error))
