"""Adapter for the Auto Scaling group that an agent's instance belongs to.

agent                             group
end this instance  ---------->    desired size - 1; the instance is Terminating
complete the action  -------->    refused: no active lifecycle action yet
                                  Terminating:Wait
complete the action  -------->    terminates the instance
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from ec2_agent.settings import AgentSettings
from joblane.deployment.names import LEAVING_HOOK, fleet_name

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient

AGAIN_S = 2.0
"""Pause before the action is completed again that the group does not know yet."""

TRIES = 30
"""How often that is tried: for a minute. The action begins within seconds."""

_REFUSED = "ValidationError"
"""Auto Scaling's code for what the group's state does not allow: a smaller size than the smallest,
or an action that is not active. The message alone says which."""


class InstanceKept(Exception):
    """The group does not end the instance; the text says why."""

    def __init__(self, error: Exception, *, refused: bool, known: bool) -> None:
        super().__init__(str(error))
        self.refused = refused
        """Whether the group's size forbids it: another request may be allowed."""
        self.known = known
        """Whether it is certain that the group has not begun to end it."""


@dataclass(frozen=True, slots=True)
class AutoScalingInstance:
    """Ends the instance, and completes the lifecycle action of its termination."""

    client: "AutoScalingClient"
    once: "AutoScalingClient"
    """A client that makes each request once: the desired size must not fall twice."""
    settings: AgentSettings

    async def end_instance(self, *, decrement: bool) -> None:
        """Have the group terminate this instance, and not replace it if `decrement`.

        Raises InstanceKept.
        """
        try:
            await in_thread(
                lambda: self.once.terminate_instance_in_auto_scaling_group(
                    InstanceId=self.settings.name, ShouldDecrementDesiredCapacity=decrement
                ),
                "end instance",
            )
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            known = status < 500
            raise InstanceKept(error, refused=_code(error) == _REFUSED, known=known) from None
        except AWS_ERRORS as error:
            raise InstanceKept(error, refused=False, known=False) from None

    async def complete_lifecycle_action(self) -> None:
        """Let the group terminate this instance; without it the hook's timeout does.

        Waits for the action to begin, a minute at most. Does nothing if the agent belongs to no
        fleet.
        """
        fleet = self.settings.fleet
        if fleet is None:
            return
        for tries_left in reversed(range(TRIES)):
            try:
                await in_thread(lambda: self._complete(fleet), "complete lifecycle action")
            except AWS_ERRORS as error:
                early = isinstance(error, ClientError) and _code(error) == _REFUSED
                if not early or not tries_left:
                    events.lifecycle_action_failed(error)
                    return
                await asyncio.sleep(AGAIN_S)
            else:
                return

    def _complete(self, fleet: str) -> None:
        self.client.complete_lifecycle_action(
            AutoScalingGroupName=fleet_name(self.settings.descriptor.name, fleet),
            LifecycleHookName=LEAVING_HOOK,
            InstanceId=self.settings.name,
            LifecycleActionResult="CONTINUE",
        )


def _code(error: ClientError) -> str:
    return error.response["Error"]["Code"]
