"""Joblane on one machine: MiniStack, the deployed stacks, and agents.

`with running_cloud(run_dir) as cloud:` is all that a demo or an end-to-end test needs. At the end
of the block, however it is left, every process that it started has ended and its folder is gone.
"""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import httpx

from infra.outputs import client_output
from joblane.aws.queue.lanes import LaneQueue
from joblane.config.tenant import DEFAULT_MACHINE
from joblane.contract.access import API_AUDIENCE, CONSOLE_PATH, Scope
from joblane.deployment.names import PLATFORM, lane_name
from joblane.job.message import Message
from scripts.local.agent import (
    AGENT,
    DRAIN_S,
    END_GRACE_S,
    STOP_GRACE_S,
    best_isolation,
    environment,
    wait_until_listed,
)
from scripts.local.deploy import Deploy, api_url, deploy
from scripts.local.emulator import LONGEST_POLL_S, NO_TLS, MiniStack, bind, start_ministack
from scripts.local.errors import LocalError
from scripts.local.processes import (
    KILL_TIMEOUT_S,
    RUN_MARK,
    Process,
    Spawn,
    end_leftovers,
    spawn,
)
from scripts.local.progress import Step, quiet_step

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp.client import CognitoIdentityProviderClient

DEPLOYMENT = "joblane"
TENANT = "demo"
Listen = Callable[[], socket.socket]
"""Binds the socket that MiniStack serves on. Raises LocalError when a port cannot be had."""
ANSWER_S = 0.2
"""MiniStack has answered all polls by then when it is told to."""


@dataclass
class Cloud:
    """A deployed Joblane on a loopback port."""

    run_dir: Path
    ministack: MiniStack
    outputs: dict[str, str]
    agents: dict[str, Process] = field(default_factory=dict)
    polls_over_at: float = 0.0
    """When the polls of killed agents are over, on the monotonic clock."""
    spawn: Spawn = spawn
    """Starts agents."""
    _credentials: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict, repr=False)

    @property
    def endpoint(self) -> str:
        """URL for AWS clients (`AWS_ENDPOINT_URL`)."""
        return self.ministack.endpoint

    @property
    def url(self) -> str:
        """URL of the API (`JOBLANE_URL`), without a trailing slash."""
        return api_url(self.ministack, self.outputs)

    @property
    def iam_url(self) -> str:
        """URL of the API for IAM roles."""
        api_id = self.outputs["IamApiArn"].rpartition(":")[2].removesuffix("/*")
        return api_url(self.ministack, {"ApiId": api_id})

    @property
    def console(self) -> str:
        """URL of the console."""
        return f"{self.url}{CONSOLE_PATH}"

    def environment(
        self, tenant: str = TENANT, *, machine: str = DEFAULT_MACHINE
    ) -> dict[str, str]:
        """Return the variables that make the command line and AWS clients use this cloud.

        They act as a machine of a tenant, or as the role platform's for `PLATFORM`.
        """
        return {
            "JOBLANE_URL": self.url,
            "JOBLANE_TOKEN": self.token(tenant, machine=machine),
            **self.ministack.environment(),
        }

    def token(
        self,
        tenant: str = TENANT,
        scopes: Sequence[Scope] | None = None,
        *,
        machine: str = DEFAULT_MACHINE,
    ) -> str:
        """Return a bearer token of a tenant's machine, or of the role platform's for `PLATFORM`.

        `scopes` None asks for all that the machine's role has.
        """
        client_id, secret = self.credentials(tenant, machine)
        form = {"grant_type": "client_credentials"}
        if scopes is not None:
            form["scope"] = " ".join(f"{API_AUDIENCE}/{scope}" for scope in scopes)
        # On AWS the token endpoint has its own host; here the gateway serves its path.
        path = httpx.URL(self.outputs["TokenUrl"]).path
        answer = httpx.post(
            f"{self.endpoint}{path}",
            auth=(client_id, secret),
            data=form,
            timeout=30,
            verify=NO_TLS,
        )
        if answer.status_code != httpx.codes.OK:
            raise LocalError(f"no token for {tenant!r}: {' '.join(answer.text.split())}")
        return str(answer.json()["access_token"])

    def credentials(self, tenant: str = TENANT, machine: str = DEFAULT_MACHINE) -> tuple[str, str]:
        """Return id and secret of a machine's client, which stay the same."""
        if (known := self._credentials.get((tenant, machine))) is not None:
            return known
        client_id = self.outputs[client_output(tenant, machine)]
        described = self.cognito().describe_user_pool_client(
            UserPoolId=self.outputs["UserPoolId"], ClientId=client_id
        )
        found = client_id, described["UserPoolClient"]["ClientSecret"]
        self._credentials[tenant, machine] = found
        return found

    def cognito(self) -> "CognitoIdentityProviderClient":
        """Return a client of the service with the user pool."""
        return boto3.client("cognito-idp", **self.ministack.root())

    def start_agent(
        self,
        name: str = "local",
        *,
        threads: int = 4,
        isolation: str | None = None,
        endpoint: str | None = None,
        options: Sequence[str] = (),
        program: Sequence[str | Path] = AGENT,
        wait: bool = True,
    ) -> Process:
        """Start `joblane agent` with further `options`, and `wait_for_agent`.

        `isolation` None means the best that this host can do; `endpoint` is where the agent finds
        AWS, if not at MiniStack itself; `program` stands in for `joblane agent` in tests. Several
        agents may run at once.
        """
        if not Path(program[0]).exists():
            raise LocalError(f"{program[0]}: is not installed; run scripts/setup")
        command, env = self.agent_command(
            name, ("--threads", str(threads), *options), isolation=isolation, program=program
        )
        if endpoint is not None:
            env["AWS_ENDPOINT_URL"] = endpoint
        agent = Process.start(
            f"agent-{name}", command, run_dir=self.run_dir, env=env, spawn=self.spawn
        )
        self.agents[name] = agent
        if wait:
            self.wait_for_agent(name)
        return agent

    def agent_command(
        self,
        name: str,
        options: Sequence[str],
        *,
        isolation: str | None = None,
        program: Sequence[str | Path] = AGENT,
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command of an agent, and all of its environment."""
        fixed = ["--deployment", DEPLOYMENT, "--name", name]
        fixed += ["--isolation", isolation or best_isolation(), "--drain-s", str(DRAIN_S)]
        env = environment(self.ministack, self.run_dir) | {RUN_MARK: str(self.run_dir)}
        return [*map(str, program), *fixed, *options], env

    def restart_agent(self, name: str) -> None:
        """Restart an agent that a supervisor keeps; its jobs go on. `wait_for_agent` then."""
        self.agents[name] = replace(self.agents[name], not_before=time.time())
        os.kill(self.agents[name].pid, signal.SIGHUP)

    def wait_for_agent(self, name: str) -> None:
        """Return when the API lists an agent as alive, and the polls of killed agents are over."""
        wait_until_listed(self.agents[name], name, self.url, self.token(PLATFORM))
        self.wait_for_polls()

    def wait_for_polls(self) -> None:
        """Return when the polls of killed agents are over."""
        time.sleep(max(0.0, self.polls_over_at - time.monotonic()))

    def stop_agent(self, name: str = "local") -> None:
        """Drain the agent, and wait for its end."""
        self.agents.pop(name).stop(STOP_GRACE_S, self.ministack.end_polls)

    def kill_agent(
        self, name: str, number: int = signal.SIGKILL, *, with_group: bool = False
    ) -> int:
        """End an agent that gets no time to leave; returns its exit code.

        MiniStack answers its open polls then. `wait_for_agent` returns when that is over: a message
        in such an answer would stay hidden for two minutes.
        """
        agent = self.agents.pop(name)
        (os.killpg if with_group else os.kill)(agent.pid, number)
        code = agent.wait(KILL_TIMEOUT_S)
        self.ministack.end_polls()
        self.polls_over_at = time.monotonic() + ANSWER_S
        return code

    def stop_agents(self) -> None:
        """Drain all agents, and wait for their end."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.stop_agent, list(self.agents)))

    def show_again(self, job_ids: Iterable[str]) -> None:
        """Send the messages of the tenant demo's jobs in the queue default again, as SQS may do.

        So a test need not wait for those that an agent received and died with: two minutes.
        """
        sqs = boto3.client("sqs", **self.ministack.root())
        url = sqs.get_queue_url(QueueName=lane_name(DEPLOYMENT, "default", "default"))["QueueUrl"]
        LaneQueue(sqs, url).send_batch(
            [(Message(job_id=i, tenant=TENANT, lane="default/default"), 0) for i in job_ids]
        )
        sqs.close()

    def processes(self) -> list[Process]:
        """Return the running processes, in the order in which to end them."""
        return [*self.agents.values(), self.ministack.process]

    def stop(self) -> None:
        """End the agents after a short grace period, then MiniStack."""
        for agent in self.agents.values():
            agent.stop(END_GRACE_S, self.ministack.end_polls)
        self.agents.clear()
        self.ministack.stop()


def start_cloud(
    run_dir: Path,
    listen: Listen = bind,
    step: Step = quiet_step,
    longest_poll_s: int = LONGEST_POLL_S,
    make: Deploy = deploy,
) -> Cloud:
    """Start MiniStack on the socket that `listen` makes, and deploy Joblane to it.

    `run_dir` must not exist; it is made for this run. When something fails, LocalError says what
    in one line and nothing is left running; the folder stays, for its logs.
    """
    with listen() as server:  # first: a port in use is reported before the folder is made
        try:
            run_dir.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise LocalError(f"{run_dir} exists already; another run uses it") from None
        with _nothing_left_on_failure(run_dir), step("starting MiniStack"):
            ministack = start_ministack(run_dir, server, longest_poll_s)
    with _nothing_left_on_failure(run_dir):
        outputs = make(ministack, run_dir, step)
    return Cloud(run_dir, ministack, outputs)


@contextmanager
def running_cloud(
    run_dir: Path,
    listen: Listen = bind,
    step: Step = quiet_step,
    longest_poll_s: int = LONGEST_POLL_S,
    make: Deploy = deploy,
) -> Iterator[Cloud]:
    """Run a cloud for the duration of a block, then remove every process and the folder.

    When the block fails the folder stays, for its logs.
    """
    cloud = start_cloud(run_dir, listen, step, longest_poll_s, make)
    with _nothing_left_on_failure(run_dir):
        try:
            yield cloud
        finally:
            cloud.stop()
    end_leftovers(run_dir)
    shutil.rmtree(run_dir)


@contextmanager
def _nothing_left_on_failure(run_dir: Path) -> Iterator[None]:
    """End the processes of a block that failed; remove its folder if it was interrupted."""
    try:
        yield
    except BaseException as error:
        end_leftovers(run_dir)
        if not isinstance(error, Exception):  # Ctrl-C or SIGTERM: the logs are not needed
            shutil.rmtree(run_dir, ignore_errors=True)
        raise
