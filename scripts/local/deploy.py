"""Deploys the CDK app to MiniStack with the CDK command line.

Synthesis takes as long as the rest, so its result is kept in `.build/` under a hash of the sources.
It runs beside the bootstrap, and `cdk deploy` reads the result.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from scripts.local.emulator import ACCOUNT, REGION, ROOT, MiniStack
from scripts.local.errors import LocalError
from scripts.local.processes import Process
from scripts.local.progress import Progress

BIN = ROOT / ".venv" / "bin"
TOOLS = ROOT / ".local" / "tools" / "bin"
CDK = ROOT / "node_modules" / ".bin" / "cdk"
CDK_TIMEOUT_S = 300.0
STOP_GRACE_S = 2.0

BUILD = ROOT / ".build"
SOURCES = ("infra", "functions", "layers", "ec2_agent", "scripts/local")
SOURCE_FILES = ("app.py", "cdk.json", "pyproject.toml", "uv.lock", "package-lock.json")

AGENT_ROLE = "joblane-agent"
_FLEET_STACK = "joblane-fleet-main"

_UNASKED = ("--require-approval", "never", "--progress", "events")

_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Outputs:
    """Outputs of the API stack."""

    values: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        """Return one output. Raises LocalError when the stack has none of that name."""
        try:
            return self.values[name]
        except KeyError:
            known = ", ".join(sorted(self.values))
            raise LocalError(f"the API stack has no output {name}; it has {known}") from None


def deploy(ministack: MiniStack, run_dir: Path, progress: Progress) -> Outputs:
    """Bootstrap and deploy every stack of `scripts/local/joblane.toml`.

    Raises LocalError when the CDK is not installed or fails.
    """
    if not CDK.exists():
        raise LocalError(f"{CDK}: the CDK command line is not installed; run scripts/setup")
    outputs = run_dir / "outputs.json"
    cdk = _Cdk(ministack, run_dir)
    with (
        progress.step("synthesizing the stacks, bootstrapping the account"),
        cdk.running(("bootstrap", f"aws://{ACCOUNT}/{REGION}")) as bootstrap,
    ):
        assembly = _synthesized(cdk, run_dir)
        cdk.finish(bootstrap)
    with progress.step("deploying the stacks"):
        cdk.run(
            ("deploy", "--all", "--app", str(assembly), *_UNASKED, "--outputs-file", str(outputs))
        )
        set_what_was_dropped(ministack, assembly)
    stacks = json.loads(outputs.read_text(encoding="utf-8"))
    api = [values for stack, values in stacks.items() if stack.endswith("-api")]
    if len(api) != 1:
        raise LocalError(f"{outputs}: expected the outputs of one API stack, found {len(api)}")
    set_where_to_log_in(ministack, api[0]["UserPoolId"])
    return Outputs(api[0])


def local_config() -> str:
    """Return the local joblane.toml with this machine's architecture and Python version."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise LocalError(f"the architecture {machine} has no Lambda; use x86_64 or arm64")
    text = Path(__file__).with_name("joblane.toml").read_text(encoding="utf-8")
    # scripts/setup creates both virtual environments with this Python.
    runtime = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for key, value in (("architecture", _ARCHITECTURES[machine]), ("runtime", runtime)):
        text, replaced = re.subn(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', text)
        if replaced != 1:
            raise LocalError(f"scripts/local/joblane.toml: needs exactly one line `{key} = ...`")
    return text


def _synthesized(cdk: "_Cdk", run_dir: Path) -> Path:
    """Return the folder of the synthesized stacks; two processes at once synthesize once."""
    config = run_dir / "joblane.toml"
    config.write_text(local_config(), encoding="utf-8")
    BUILD.mkdir(exist_ok=True)
    assembly = BUILD / f"assembly-{_digest(config)}"
    with (BUILD / "assembly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if assembly.exists():
            return assembly
        # Another process may be deploying the newest one.
        for old in sorted(BUILD.glob("assembly-*"), key=lambda path: path.stat().st_mtime)[:-1]:
            shutil.rmtree(old)
        fresh = run_dir / "cdk.out"
        cdk.run(("synth", "--quiet", "--context", f"config={config}", "--output", str(fresh)))
        leave_the_agents_role(fresh)
        # Renamed at the end, so that an interrupted synthesis is not used.
        copy = BUILD / f"{assembly.name}.{os.getpid()}"
        shutil.move(fresh, copy)
        copy.rename(assembly)
    return assembly


def _digest(config: Path) -> str:
    """Hash the inputs of the synthesis."""
    digest = hashlib.sha256()
    trees = (file for tree in SOURCES for file in sorted((ROOT / tree).rglob("*")))
    for file in (config, *(ROOT / name for name in SOURCE_FILES), *trees):
        if file.is_file() and "__pycache__" not in file.parts:
            name = "joblane.toml" if file == config else str(file.relative_to(ROOT))
            digest.update(f"{name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def leave_the_agents_role(assembly: Path) -> None:
    """Reduce the fleet's stack to the role of its instances, which the local agents use.

    MiniStack knows neither instances nor State Manager. AWS's own policy is taken off the role:
    what an agent needs must stand in ours.
    """
    path = assembly / f"{_FLEET_STACK}.template.json"
    template = json.loads(path.read_text(encoding="utf-8"))
    kept = {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::Policy")
    }
    (role,) = (kept[name] for name in kept if kept[name]["Type"] == "AWS::IAM::Role")
    role["Properties"].pop("ManagedPolicyArns")
    role["Properties"]["RoleName"] = AGENT_ROLE
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    trust["Principal"] = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    path.write_text(json.dumps({**template, "Resources": kept}), encoding="utf-8")


def set_what_was_dropped(ministack: MiniStack, assembly: Path) -> None:
    """Set the TTL of tables, which MiniStack's CloudFormation ignores. Idempotent."""
    dynamodb = boto3.client(
        "dynamodb",
        endpoint_url=ministack.endpoint,
        region_name=REGION,
        aws_access_key_id=ministack.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=ministack.environment()["AWS_SECRET_ACCESS_KEY"],
    )
    for table, attribute in _declared_ttls(assembly):
        now = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if now.get("TimeToLiveStatus") != "ENABLED":
            dynamodb.update_time_to_live(
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": attribute},
            )


def set_where_to_log_in(ministack: MiniStack, pool: str) -> None:
    """Configure the admin function with the address of MiniStack's user pool."""
    functions = boto3.client(
        "lambda",
        endpoint_url=ministack.endpoint,
        region_name=REGION,
        aws_access_key_id=ministack.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=ministack.environment()["AWS_SECRET_ACCESS_KEY"],
    )
    name = "joblane-admin"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    login = json.loads(variables["JOBLANE_LOGIN"])
    login["openid_configuration"] = f"{ministack.endpoint}/{pool}/.well-known/openid-configuration"
    variables["JOBLANE_LOGIN"] = json.dumps(login)
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})


def _declared_ttls(assembly: Path) -> Iterator[tuple[str, str]]:
    """Yield each table of the synthesized templates with its TTL attribute."""
    for template in sorted(assembly.glob("*.template.json")):
        resources: dict[str, Any] = json.loads(template.read_text(encoding="utf-8"))["Resources"]
        for resource in resources.values():
            ttl = resource.get("Properties", {}).get("TimeToLiveSpecification")
            if resource["Type"] == "AWS::DynamoDB::Table" and ttl:
                yield resource["Properties"]["TableName"], ttl["AttributeName"]


class _Cdk:
    """Runs the CDK command line against one MiniStack."""

    def __init__(self, ministack: MiniStack, run_dir: Path) -> None:
        self._ministack = ministack
        self._run_dir = run_dir
        # uv, within the synth, needs the user's HOME, proxies and certificates; but no variable
        # may direct the CDK to a real account.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AWS_", "CDK_", "JOBLANE_"))
        }
        path = f"{BIN}:{TOOLS}:{kept.get('PATH', os.defpath)}"
        telemetry = {"CDK_DISABLE_CLI_TELEMETRY": "true"}
        self._env = {**kept, **ministack.environment(), **telemetry, "PATH": path}

    def run(self, arguments: Sequence[str]) -> None:
        """Run one command to its end."""
        with self.running(arguments) as process:
            self.finish(process)

    @contextmanager
    def running(self, arguments: Sequence[str]) -> Iterator[Process]:
        """Start one command, and end it at the end of the block."""
        # The CDK reads cdk.json from where it runs, and the app's paths in it are relative. The
        # bootstrap has no use for an app: it runs where there is none, or two copies of this
        # would meet in one cdk.out.
        where = self._run_dir if arguments[0] == "bootstrap" else ROOT
        command = ["env", "-C", str(where), str(CDK), *arguments, "--no-notices", "--no-color"]
        process = Process.start(
            f"cdk-{arguments[0]}", command, run_dir=self._run_dir, env=self._env
        )
        try:
            yield process
        finally:
            process.stop(STOP_GRACE_S)

    def finish(self, process: Process) -> None:
        """Wait for its end. Raises LocalError when it fails."""
        code = process.wait(CDK_TIMEOUT_S)
        if code != 0:
            self._ministack.require_alive()
            raise LocalError(
                f"{process.what} failed with exit code {code}: {process.last_words()} "
                f"(all of it: {process.log})"
            )
