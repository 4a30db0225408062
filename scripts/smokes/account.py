"""An AWS account as a place for the smoke test, and the steps that need one."""

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import boto3
import httpx
from botocore.exceptions import BotoCoreError, ClientError

from infra.config import load_config
from infra.outputs import client_output
from infra.reserved import count_reserved
from joblane.contract.access import AnyRole
from joblane.deployment.names import PLATFORM
from scripts.deploying.facts import Account
from scripts.deploying.options import region_of
from scripts.deploying.preflight import Declared, Facts, findings
from scripts.local.emulator import ROOT
from scripts.local.processes import Process
from scripts.smokes import jobs
from scripts.smokes.leftovers import KINDS, leftovers, remove
from scripts.smokes.runner import Failure
from scripts.smokes.site import LABEL, Load, Site, wait_until

VPCS = "L-F678F1CE"
"""Code of the quota of VPCs a region."""

QUEUES_S = 90
"""Within a minute of its deletion SQS lists a queue, and refuses its name to a new one."""

AGENTS_S = 900
STACKS_S = 1800
FEWER_PAGES = 200
"""Most pages of CloudTrail's events, of which an account may ask for two a second."""

ENVIRONMENT = {**os.environ, "CDK_DISABLE_CLI_TELEMETRY": "true"}

REFUSED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
"""Ends of CloudTrail's error codes for what IAM refused."""

RETAINED = ("Retain", "RetainExceptOnCreate")

CONFIG = """\
name = "{name}"
removal = "retain" # so that the steps `destroy` and `deploy again` have something to find

[retention]
completed_days = 1
failed_days = 1
dead_days = 1
other_days = 1
logs_days = 1
audit_days = 1

[functions]
reserved_concurrency = {reserved}

[tenants.main.machines]
default = "developer"
reader = "reader"
developer = "developer"
operator = "operator"
admin = "admin"

[platform]
machines = ["default"]

[queues.default]
threads = {threads}

[fleets.main]
queues = ["default"]
instance_types = ["c7g.large", "c6g.large"]
min_size = 2
max_size = 2
disk_gb = {disk_gb}

[fleets.main.labels]
{label} = "{label}"
"""


THREADS, DISK_GB = 8, 1
"""Of the first deployment; an upgrade raises one of them."""


def format_config(
    name: str, *, reserves: bool = True, threads: int = THREADS, disk_gb: int = DISK_GB
) -> str:
    """Return the joblane.toml of a run."""
    values = {"reserved": str(reserves).lower(), "threads": threads, "disk_gb": disk_gb}
    return CONFIG.format(name=name, label=LABEL, **values)


class AccountSite(Site):
    """A deployment of its own in the account of the credentials in the environment."""

    local = False
    tenant = "main"
    load = Load(60, 60)
    patience_s = 60.0

    def __init__(self, name: str, run_dir: Path) -> None:
        """`run_dir` gets the configuration, the templates and the CDK's log."""
        super().__init__()
        self.name = name
        self.began = datetime.now(UTC)
        self._run_dir = run_dir
        self._session = boto3.Session(region_name=region_of(os.environ))
        self._threads = THREADS
        self._disk_gb = DISK_GB
        self.kept = ""
        """Id of a job that ended before the stacks were destroyed."""
        self.destroyed = 0.0
        """When they were, on the monotonic clock."""

    @cached_property
    def account(self) -> str:  # type: ignore[override]
        """The account's id."""
        return str(self.aws("sts").get_caller_identity()["Account"])

    @cached_property
    def region(self) -> str:  # type: ignore[override]
        """The region."""
        return str(self._session.region_name)

    @property
    def outputs(self) -> dict[str, str]:
        """Outputs of the API stack."""
        written = json.loads((self._run_dir / "outputs.json").read_text(encoding="utf-8"))
        outputs: dict[str, str] = written[f"{self.name}-api"]
        return outputs

    @property
    def url(self) -> str:  # type: ignore[override]
        """URL of the API."""
        return self.outputs["ApiUrl"].rstrip("/")

    def aws(self, service: str) -> Any:
        """Return a client with the credentials of the environment."""
        return self._session.client(service)  # type: ignore[call-overload]

    def check(self) -> str:
        """Check identity, region, bootstrap, quotas and names; nothing is changed."""
        if self._session.region_name is None:
            raise Failure("no region is set; set AWS_REGION")
        try:
            who = self.aws("sts").get_caller_identity()["Arn"]
        except (BotoCoreError, ClientError) as error:
            raise Failure(f"no usable credentials of an AWS account: {error}") from None
        made = self._declare()
        found = findings(made, self._facts, count_reserved(made.config), "never")
        lacks = [each.text for each in found if each.refuses]
        lacks += self._short_of_networks()
        lacks += [
            f"{kind} of that name: {', '.join(ids)}"
            for kind, ids in leftovers(self.aws, self.name).items()
        ]
        if lacks:
            raise Failure("; ".join(lacks))
        return f"{who} in {self.region}"

    def _declare(self) -> Declared:
        text = format_config(
            self.name, reserves=self._reserves, threads=self._threads, disk_gb=self._disk_gb
        )
        path = self._run_dir / "joblane.toml"
        path.write_text(text, encoding="utf-8")
        return Declared(str(path), text, load_config(path))

    @cached_property
    def _facts(self) -> Facts:
        """What the account has before the first deployment."""
        path = self._run_dir / "joblane.toml"
        path.write_text(format_config(self.name), encoding="utf-8")
        return Account(self.aws, self.account, self.region).facts(load_config(path))

    @cached_property
    def _reserves(self) -> bool:
        """Whether the account has enough concurrency for what Joblane reserves."""
        has, wanted = (
            self._facts.concurrency,
            count_reserved(load_config(self._run_dir / "joblane.toml")),
        )
        return has is None or has.leaves(wanted)

    def _short_of_networks(self) -> list[str]:
        networks = len(self.aws("ec2").describe_vpcs()["Vpcs"])
        quotas, named = self.aws("service-quotas"), {"ServiceCode": "vpc", "QuotaCode": VPCS}
        try:
            try:
                answer = quotas.get_service_quota(**named)
            except quotas.exceptions.NoSuchResourceException:  # it was never changed
                answer = quotas.get_aws_default_service_quota(**named)
        except ClientError as error:
            return [f"the quota of VPCs cannot be read: {error}"]
        if networks >= (most := answer["Quota"]["Value"]):
            return [f"there are {networks} VPCs of {most:.0f}; the fleet needs one more"]
        return []

    def deploy(self) -> str:
        """Deploy all stacks, and wait for both agents."""
        began = time.monotonic()
        self.cdk("deploy")
        stacks = time.monotonic() - began
        wait_until("two agents report", lambda: len(self.agents()) >= 2, AGENTS_S)
        return f"stacks in {stacks:.0f} s, agents {time.monotonic() - began - stacks:.0f} s later"

    def cdk(self, command: Literal["deploy", "destroy"]) -> None:
        """Run `scripts/cdk` for all stacks, unasked. Raises Failure with its last words."""
        config = self._declare().path
        words = [str(ROOT / "scripts" / "cdk"), command, "--all", "-c", f"config={config}"]
        words += ["--output", str(self._run_dir / "cdk.out"), "--concurrency", "4"]
        if command == "deploy":
            words += ["--require-approval", "never", "--progress", "events"]
            words += ["--outputs-file", str(self._run_dir / "outputs.json")]
        else:
            words.append("--force")
        process = Process.start(f"cdk-{command}", words, run_dir=self._run_dir, env=ENVIRONMENT)
        try:
            code = process.wait(STACKS_S)
        finally:
            process.stop(2)  # CloudFormation goes on by itself; `remove` waits for it
        if code:
            raise Failure(f"cdk {command}: {process.last_words()} (all of it: {process.log})")

    def remove(self) -> str:
        """Delete the stacks and whatever else has the deployment's name."""
        if left := remove(self.aws, self.name):
            raise Failure(f"still there: {left}")
        return f"nothing is left of {self.name}"

    def new_token(self, role: AnyRole) -> str:
        """Fetch a token with the machine's secret."""
        tenant, machine = (PLATFORM, "default") if role == PLATFORM else (self.tenant, role)
        outputs = self.outputs
        client = outputs[client_output(tenant, machine)]
        described = self.aws("cognito-idp").describe_user_pool_client(
            UserPoolId=outputs["UserPoolId"], ClientId=client
        )
        answer = httpx.post(
            outputs["TokenUrl"],
            auth=(client, described["UserPoolClient"]["ClientSecret"]),
            data={"grant_type": "client_credentials"},
            timeout=30,
        )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def end_instance(self, agent: str) -> None:
        """Terminate an instance; its agent has the instance's id as its name."""
        self.aws("ec2").terminate_instances(InstanceIds=[agent])

    def upgrade(self, agent: str) -> None:
        """Deploy a change that reaches the agent's unit, and wait for the agent to run by it."""
        before = self.agents().get(agent, {}).get("threads")
        self._threads += 1
        self.cdk("deploy")

        def has_changed() -> bool:
            now = self.agents().get(agent)
            return now is None or now["threads"] != before

        wait_until(f"the agent {agent} runs with {self._threads} threads", has_changed, AGENTS_S)

    def change_template(self) -> None:
        """Deploy another launch template; CloudFormation waits until all instances are replaced."""
        self._disk_gb += 1
        self.cdk("deploy")

    def refusals(self) -> list[str]:
        """Return the log lines of functions and agents that tell of a refused call."""
        logs, since = self.aws("logs"), int(self.began.timestamp() * 1000)
        found: list[str] = []
        prefix = f"/aws/lambda/{self.name}-"
        for group in logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]:
            events = logs.filter_log_events(
                logGroupName=group["logGroupName"], startTime=since, filterPattern="AccessDenied"
            )["events"]
            found += [f"{group['logGroupName']}: {event['message']}" for event in events]
        return [*found, *self._journals()]

    def _journals(self) -> list[str]:
        ssm, agents = self.aws("ssm"), sorted(self.agents())
        sent = ssm.send_command(
            InstanceIds=agents,
            DocumentName="AWS-RunShellScript",
            Parameters={
                "commands": ["journalctl -u joblane-agent -o cat | grep AccessDenied | tail -5"]
            },
        )["Command"]["CommandId"]
        found: list[str] = []
        for agent in agents:
            # grep fails when it finds nothing
            def has_ended(agent: str = agent) -> bool:
                answer = ssm.list_command_invocations(CommandId=sent, InstanceId=agent)
                return any(
                    each["Status"] in ("Success", "Failed") for each in answer["CommandInvocations"]
                )

            wait_until(f"the journal of {agent} is read", has_ended, 120)
            answer = ssm.get_command_invocation(CommandId=sent, InstanceId=agent)
            found += [f"{agent}: {line}" for line in answer["StandardOutputContent"].splitlines()]
        return found

    def count_retained(self) -> Counter[str]:
        """Count what the templates retain, by type."""
        found: Counter[str] = Counter()
        for path in (self._run_dir / "cdk.out").glob("*.template.json"):
            resources = json.loads(path.read_text(encoding="utf-8"))["Resources"].values()
            found.update(r["Type"] for r in resources if r.get("DeletionPolicy") in RETAINED)
        return found


def refresh(site: Site) -> str:
    """Change the launch template: every instance is replaced, and the new ones run jobs."""
    place = _account(site)
    before = set(place.agents())
    place.change_template()

    def is_replaced() -> bool:
        now = set(place.agents())
        return len(now) >= len(before) and not now & before

    wait_until(f"other agents than {', '.join(sorted(before))} report", is_replaced, AGENTS_S)
    jobs.expect(jobs.run(place, "true"), "completed")
    return f"{len(before)} instances were replaced"


def destroy(site: Site) -> str:
    """Destroy the stacks; what is left is what the templates retain, and no more."""
    place = _account(site)
    keep = jobs.run(place, "echo kept")
    place.kept = keep.id
    place.cdk("destroy")
    place.destroyed = time.monotonic()
    retained = place.count_retained()
    wanted = {kind.type: retained[kind.type] for kind in KINDS if retained[kind.type]}
    left = _count_left(place)
    while left != wanted and time.monotonic() < place.destroyed + QUEUES_S:
        time.sleep(5)  # a deleted queue is listed for a minute
        left = _count_left(place)
    if left != wanted:
        raise Failure(f"left are {left}; the templates retain {wanted}")
    return f"left: {', '.join(f'{n} x {kind}' for kind, n in sorted(left.items()))}"


def _count_left(place: AccountSite) -> dict[str, int]:
    return {kind: len(ids) for kind, ids in leftovers(place.aws, place.name).items()}


def deploy_again(site: Site) -> str:
    """Deploy over what was retained; an earlier job is there, and a new one runs."""
    place = _account(site)
    place.tokens.clear()  # of clients that are gone
    time.sleep(max(0.0, place.destroyed + QUEUES_S - time.monotonic()))
    note = place.deploy()
    with place.client() as client:
        jobs.expect(client.get(place.kept), "completed")
    jobs.expect(jobs.run(place, "true"), "completed")
    return note


def trail(site: Site) -> str:
    """CloudTrail has no refused call of one of the deployment's roles."""
    place = _account(site)
    client, refused, newest, asked = place.aws("cloudtrail"), [], None, 0
    pages = client.get_paginator("lookup_events").paginate(
        StartTime=place.began, EndTime=datetime.now(UTC)
    )
    for page in pages:
        for event in page["Events"]:
            newest = newest or event["EventTime"]
            told = json.loads(event["CloudTrailEvent"])
            issuer = told.get("userIdentity", {}).get("sessionContext", {}).get("sessionIssuer", {})
            ours = str(issuer.get("userName", "")).startswith(f"{place.name}-")
            if ours and told.get("errorCode", "").endswith(REFUSED):
                refused.append(f"{issuer['userName']}: {told['eventName']}: {told['errorCode']}")
        asked += 1
        if asked >= FEWER_PAGES:
            break
        time.sleep(0.5)
    if refused:
        raise Failure("; ".join(sorted(set(refused))))
    return f"{asked} pages of events, the newest of {newest}"


def _account(site: Site) -> AccountSite:
    if not isinstance(site, AccountSite):
        raise Failure("this step needs an AWS account")
    return site
