"""The local AWS as a place for the smoke test: agents are processes of this machine."""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boto3
import httpx

from joblane.aws.functions import CalledFunction
from joblane.contract.access import AnyRole
from joblane.deployment.names import DEPLOYMENT_TAG, PLATFORM, fleet_name, fleet_stack_name
from scripts.local.agent import END_GRACE_S
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud, start_cloud
from scripts.local.emulator import ACCOUNT, REGION
from scripts.local.processes import end_leftovers, end_shims
from scripts.smokes.leftovers import remove
from scripts.smokes.runner import Failure
from scripts.smokes.site import LABEL, Load, Site
from tests.support.permissions import read_calls

AGENTS = ("smoke-a", "smoke-b")

LABEL_OPTIONS = ("--label", f"{LABEL}={LABEL}")

GROUP = fleet_name(DEPLOYMENT, "smoke")

PROTECTED = f"""
Resources:
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      AutoScalingGroupName: {GROUP}
      NewInstancesProtectedFromScaleIn: true
      MinSize: 2
      MaxSize: 2
      Tags: [{{Key: "{DEPLOYMENT_TAG}", Value: {DEPLOYMENT}, PropagateAtLaunch: true}}]
"""
"""A group such as fleets have, whose instances run no agent: the removal has to delete it too."""

WAIT_SCALE = "stepfunctions._SFN_WAIT_SCALE"
QUICK = 0.05
"""Of the state machine's waits: the first 10 s take half a second."""


class LocalSite(Site):
    """A cloud of scripts/local: one of its own, or one that is there already."""

    local = True
    name, tenant, account, region = DEPLOYMENT, TENANT, ACCOUNT, REGION
    load = Load(4, 2)
    patience_s = 30.0

    def __init__(self, run_dir: Path, shared: Cloud | None = None) -> None:
        """Use `shared`, which stays as it is; without it, start one with its files in `run_dir`."""
        super().__init__()
        self._run_dir = run_dir
        self._shared = shared
        self._cloud = shared
        self._quick = ExitStack()

    @property
    def cloud(self) -> Cloud:
        """The cloud, once it is there."""
        if self._cloud is None:
            raise Failure("the local AWS has not been started")
        return self._cloud

    @property
    def url(self) -> str:  # type: ignore[override] # known once it is deployed
        """URL of the API."""
        return self.cloud.url

    def check(self) -> str:
        """The local AWS has no quotas, and its names are free: it is new."""
        return f"the local AWS, account {ACCOUNT}"

    def deploy(self) -> None:
        """Start the local AWS, deploy to it, and start the agents."""
        if self._cloud is None:
            self._cloud = start_cloud(self._run_dir)
            self.aws("cloudformation").create_stack(
                StackName=fleet_stack_name(self.name, GROUP), TemplateBody=PROTECTED
            )
        self._scale_waits(QUICK)
        self._quick.callback(self._scale_waits, 1.0)
        self.cloud.stop_agents()  # of others: these two serve the queue
        for name in AGENTS:
            self.cloud.start_agent(name, threads=4, options=LABEL_OPTIONS)

    def remove(self) -> None:
        """End the agents; delete everything from the local AWS, and end it, if it is ours."""
        if self._cloud is None:
            end_leftovers(self._run_dir)
            return
        if self._shared is not None:
            self._quick.close()
            self._cloud.stop_agents()
            return
        for agent in self._cloud.agents.values():
            agent.stop(END_GRACE_S)
        left = remove(self.aws, self.name)
        self._cloud.stop()
        end_leftovers(self._run_dir)
        if left:
            raise Failure(f"still there: {left}")
        if running := [p.what for p in self._cloud.processes() if p.is_alive()]:
            raise Failure(f"still running: {', '.join(running)}")

    def aws(self, service: str) -> Any:
        """Return a client with all permissions."""
        return boto3.client(service, **self.cloud.ministack.root())  # type: ignore[call-overload]

    def new_token(self, role: AnyRole) -> str:
        """Return a token of the machine that is named after its role."""
        if role == PLATFORM:
            return self.cloud.token(PLATFORM)
        return self.cloud.token(machine=role)

    def end_instance(self, agent: str) -> None:
        """Kill an agent with its jobs, and report the end of its instance as EC2 does."""
        self.cloud.kill_agent(agent, with_group=True)
        end_shims(self.cloud.run_dir, agent)
        # EC2 tells of it later. A poll of the dead would take the message that follows.
        self.cloud.wait_for_polls()
        event = {"detail": {"instance-id": agent, "state": "terminated"}}
        # The call reads the answer: until then nobody closes its connection.
        CalledFunction(lambda: self.aws("lambda"), f"{DEPLOYMENT}-instance_end")(event)
        # As the fleet does, whose new instance has a name of its own.
        self.cloud.start_agent(f"{agent}-next", threads=4, options=LABEL_OPTIONS)

    def upgrade(self, agent: str) -> None:
        """Restart an agent as its unit does: it hands its jobs over to the next process."""
        self.cloud.kill_agent(agent, signal.SIGHUP)
        self.cloud.start_agent(agent, threads=4, options=LABEL_OPTIONS)

    def refusals(self) -> list[str]:
        """Return the calls of roles that the local AWS refused."""
        calls = read_calls(self.cloud.ministack.calls)
        return [f"{call.role}: {call.action} on {call.arn}" for call in calls if not call.allowed]

    def _scale_waits(self, scale: float) -> None:
        answer = httpx.post(
            f"{self.cloud.endpoint}/_ministack/config",
            json={WAIT_SCALE: scale},
            headers=self.cloud.ministack.headers(),
        )
        if WAIT_SCALE not in answer.text:
            raise Failure(f"the local AWS did not take {WAIT_SCALE}: {answer.text}")
