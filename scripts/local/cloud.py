"""The whole of Joblane on one machine: MiniStack, the deployed stacks, and agents.

`with running_cloud(run_dir) as cloud:` is all that a demo or an end-to-end test needs; whatever
way the block is left, every process it started is gone and so is its folder.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import boto3
import httpx

from infra.outputs import client_output
from joblane.aws.lanes import LaneQueue
from joblane.config import API_AUDIENCE, DEFAULT_MACHINE, Scope
from joblane.message import Message
from joblane.names import lane_name
from scripts.local.agent import END_GRACE_S, STOP_GRACE_S, start_agent, wait_until_listed
from scripts.local.deploy import Outputs, deploy
from scripts.local.emulator import (
    ACCESS_KEY,
    REGION,
    MiniStack,
    free_port,
    require_free,
    start_ministack,
)
from scripts.local.errors import LocalError
from scripts.local.processes import Process, end_leftovers
from scripts.local.progress import Progress, Quiet

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp.client import CognitoIdentityProviderClient

DEPLOYMENT = "joblane"
TENANT = "demo"


class _Root(TypedDict):
    """How boto3 reaches MiniStack with all rights."""

    endpoint_url: str
    region_name: str
    aws_access_key_id: str
    aws_secret_access_key: str


@dataclass
class Cloud:
    """A deployed Joblane on a loopback port."""

    run_dir: Path
    ministack: MiniStack
    outputs: Outputs
    agents: dict[str, Process] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """URL for AWS clients (`AWS_ENDPOINT_URL`)."""
        return self.ministack.endpoint

    @property
    def url(self) -> str:
        """URL of the API (`JOBLANE_URL`), without a slash at its end.

        The stage's name, `$default`, is left out: it would have to be quoted in a shell.
        """
        return f"{self.endpoint}/_aws/execute-api/{self.outputs['ApiId']}"

    def environment(self, tenant: str = TENANT) -> dict[str, str]:
        """Return the variables that make the command line and AWS clients use this cloud."""
        return {
            "JOBLANE_URL": self.url,
            "JOBLANE_TOKEN": self.token(tenant),
            **self.ministack.environment(),
        }

    def token(
        self,
        tenant: str = TENANT,
        scopes: Sequence[Scope] | None = None,
        *,
        machine: str = DEFAULT_MACHINE,
    ) -> str:
        """Return a bearer token of a tenant's machine, from the pool's token endpoint.

        `scopes` None asks for all that the machine's role has.
        """
        client_id, secret = self.credentials(tenant, machine)
        form = {"grant_type": "client_credentials"}
        if scopes is not None:
            form["scope"] = " ".join(f"{API_AUDIENCE}/{scope}" for scope in scopes)
        # On AWS the token endpoint has a host of its own; here the gateway serves its path.
        path = httpx.URL(self.outputs["TokenUrl"]).path
        answer = httpx.post(f"{self.endpoint}{path}", auth=(client_id, secret), data=form)
        if answer.status_code != httpx.codes.OK:
            raise LocalError(f"no token for {tenant!r}: {' '.join(answer.text.split())}")
        return str(answer.json()["access_token"])

    def credentials(self, tenant: str = TENANT, machine: str = DEFAULT_MACHINE) -> tuple[str, str]:
        """Return id and secret of a machine's client."""
        client_id = self.outputs[client_output(tenant, machine)]
        described = self.cognito().describe_user_pool_client(
            UserPoolId=self.outputs["UserPoolId"], ClientId=client_id
        )
        return client_id, described["UserPoolClient"]["ClientSecret"]

    def cognito(self) -> "CognitoIdentityProviderClient":
        """Return a client of the service with the user pool."""
        return boto3.client("cognito-idp", **self._root())

    def _root(self) -> "_Root":
        return {
            "endpoint_url": self.endpoint,
            "region_name": REGION,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": ACCESS_KEY,
        }

    def start_agent(
        self,
        name: str = "local",
        *,
        threads: int = 4,
        isolation: str | None = None,
        endpoint: str | None = None,
        options: Sequence[str] = (),
    ) -> Process:
        """Start an agent and return when the API lists it as alive.

        `isolation` None means the best that this host can do; `endpoint` is where the agent finds
        AWS, if not at MiniStack itself; `options` are more of its command line's. Several agents
        may run at once.
        """
        agent = start_agent(
            self.ministack,
            self.run_dir,
            deployment=DEPLOYMENT,
            name=name,
            threads=threads,
            isolation=isolation,
            endpoint=endpoint,
            options=options,
        )
        self.agents[name] = agent
        wait_until_listed(agent, name, self.url, self.token())
        return agent

    def stop_agent(self, name: str = "local") -> None:
        """Ask the agent to leave, and wait until it did."""
        self.agents.pop(name).stop(STOP_GRACE_S)

    def show_again(self, job_ids: Iterable[str]) -> None:
        """Send the messages of demo's jobs of the queue default once more, as SQS itself may do.

        So a test need not wait for those that an agent received and died with: two minutes.
        """
        sqs = boto3.client("sqs", **self._root())
        url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "default", "default"))["QueueUrl"]
        LaneQueue(sqs, url).send_batch([(Message(job_id=i, tenant=TENANT), 0) for i in job_ids])
        sqs.close()

    def processes(self) -> list[Process]:
        """Return what runs, in the order in which to end it."""
        return [*self.agents.values(), self.ministack.process]

    def stop(self) -> None:
        """End the agents, without long goodbyes, then MiniStack."""
        for agent in self.agents.values():
            agent.stop(END_GRACE_S)
        self.agents.clear()
        self.ministack.stop()


def start_cloud(run_dir: Path, port: int | None = None, progress: Progress | None = None) -> Cloud:
    """Start MiniStack and deploy Joblane to it; without a port, any free one is taken.

    `run_dir` must not exist; it is made for this run. When something fails, LocalError says what
    in one line and nothing is left running; the folder stays, for its logs.
    """
    shown = progress if progress is not None else Quiet()
    if port is not None:
        require_free(port)  # said before the folder is made
    try:
        run_dir.mkdir(parents=True)
    except FileExistsError:
        raise LocalError(f"{run_dir}: is there already; another run uses it") from None
    with _nothing_left_on_failure(run_dir):
        with shown.step("starting MiniStack"):
            ministack = start_ministack(run_dir, free_port() if port is None else port)
        outputs = deploy(ministack, run_dir, shown)
    return Cloud(run_dir, ministack, outputs)


@contextmanager
def running_cloud(
    run_dir: Path, port: int | None = None, progress: Progress | None = None
) -> Iterator[Cloud]:
    """Run a cloud for the length of a block; then every process and the folder are gone.

    When the block fails the folder stays, for its logs.
    """
    cloud = start_cloud(run_dir, port, progress)
    with _nothing_left_on_failure(run_dir):
        try:
            yield cloud
        finally:
            cloud.stop()
    end_leftovers(run_dir)
    shutil.rmtree(run_dir)


@contextmanager
def _nothing_left_on_failure(run_dir: Path) -> Iterator[None]:
    """End what a block started when it fails, and forget its folder when it was interrupted."""
    try:
        yield
    except BaseException as error:
        end_leftovers(run_dir)
        if not isinstance(error, Exception):  # Ctrl-C or SIGTERM: nobody will read the logs
            shutil.rmtree(run_dir, ignore_errors=True)
        raise
