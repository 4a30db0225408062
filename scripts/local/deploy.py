"""Deploys the CDK app to MiniStack, with the CDK command line or without it.

Synthesis takes as long as the rest, so its result is kept in `.build/` under a hash of the sources.
It runs beside the bootstrap, and `cdk deploy` reads the result. tests/infra/test_assets.py compares
it with what another synthesis makes.
"""

import fcntl
import filecmp
import json
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from infra.assets import digest
from joblane.contract.access import CONSOLE_PATH, LOGIN_CALLBACKS
from scripts.local.emulator import ACCOUNT, REGION, ROOT, MiniStack
from scripts.local.errors import LocalError
from scripts.local.processes import Process
from scripts.local.progress import Step
from scripts.local.stacks import create_stacks

BIN = ROOT / ".venv" / "bin"
TOOLS = ROOT / ".local" / "tools" / "bin"
CDK = ROOT / "node_modules" / ".bin" / "cdk"
CDK_TIMEOUT_S = 300.0
STOP_GRACE_S = 2.0

CONFIG = Path(__file__).with_name("joblane.toml")
BUILD = ROOT / ".build"
SOURCES = (
    *("infra", "functions", "console", "layers", "ec2_agent"),
    *("scripts/local", "app.py", "cdk.json"),
)
LOCKED = ("pyproject.toml", "uv.lock", "package-lock.json")

Deploy = Callable[[MiniStack, Path, Step], dict[str, str]]
"""Deploys, with logs in the folder; returns the outputs of the API stack."""

AGENT_ROLE = "joblane-agent"
_FLEET_STACK = "joblane-fleet-main"

_SHOWN_CONFIG = CONFIG.relative_to(ROOT)
_UNASKED = ("--require-approval", "never", "--progress", "events")

_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


def deploy(ministack: MiniStack, run_dir: Path, step: Step) -> dict[str, str]:
    """Bootstrap and deploy every stack of `scripts/local/joblane.toml`.

    Returns the outputs of the API stack. Raises LocalError when the CDK is not installed or fails.
    """
    if not CDK.exists():
        raise LocalError(f"{CDK}: the CDK command line is not installed; run scripts/setup")
    with (
        step("synthesizing the stacks, bootstrapping the account"),
        _cdk(ministack, run_dir, "bootstrap", f"aws://{ACCOUNT}/{REGION}"),
    ):
        assembly = synthesize(run_dir)
    return _deploy_all(ministack, run_dir, assembly, step)


def deploy_again(ministack: MiniStack, run_dir: Path, step: Step) -> dict[str, str]:
    """Deploy what has changed since `deploy`, which says what it raises and returns."""
    with step("synthesizing the stacks"):
        assembly = synthesize(run_dir)
    return _deploy_all(ministack, run_dir, assembly, step)


def _deploy_all(ministack: MiniStack, run_dir: Path, assembly: Path, step: Step) -> dict[str, str]:
    outputs = run_dir / "outputs.json"
    with step("deploying the stacks"):
        options = ("--all", "--app", str(assembly), *_UNASKED, "--outputs-file", str(outputs))
        with _cdk(ministack, run_dir, "deploy", *options):
            pass
    values: dict[str, str] = json.loads(outputs.read_text(encoding="utf-8"))["joblane-api"]
    _complete(ministack, assembly, values)
    return values


def deploy_directly(ministack: MiniStack, run_dir: Path, step: Step) -> dict[str, str]:
    """Do what `deploy` does without the CDK's command line, which takes several times as long."""
    with step("synthesizing the stacks"):
        assembly = synthesize(run_dir)
    with step("creating the stacks"):
        values = create_stacks(ministack, assembly)
    _complete(ministack, assembly, values)
    return values


def _complete(ministack: MiniStack, assembly: Path, outputs: Mapping[str, str]) -> None:
    set_what_was_dropped(ministack, assembly)
    set_where_to_log_in(ministack, outputs)


def api_url(ministack: MiniStack, outputs: Mapping[str, str]) -> str:
    """Return the URL of the API, without a trailing slash.

    The stage's name, `$default`, is left out: it would have to be quoted in a shell.
    """
    return f"{ministack.endpoint}/_aws/execute-api/{outputs['ApiId']}"


def local_config(machine: str) -> str:
    """Return the local joblane.toml for a machine, as `platform` names it, and for this Python.

    Raises LocalError when it cannot be deployed here.
    """
    if machine not in _ARCHITECTURES:
        raise LocalError(f"the architecture {machine} has no Lambda; use x86_64 or arm64")
    text = CONFIG.read_text(encoding="utf-8")
    _require_one_fleet(text)
    # scripts/setup creates both virtual environments with this Python.
    runtime = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = _ARCHITECTURES[machine]
    # The architecture of the functions, and that of the fleet: types are pushed for the latter.
    for key, value, lines in (("architecture", here, 2), ("runtime", runtime, 1)):
        text, replaced = re.subn(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', text)
        if replaced < lines:
            raise LocalError(f"scripts/local/joblane.toml: needs {lines} lines `{key} = ...`")
    return text.replace("c7i.large", "c7g.large") if here == "arm64" else text


def _require_one_fleet(text: str) -> None:
    """Refuse other fleets than `main`: MiniStack has no type that their instances need."""
    try:
        fleets = tomllib.loads(text).get("fleets", {})
    except tomllib.TOMLDecodeError as error:
        raise LocalError(f"{_SHOWN_CONFIG}: is not TOML: {error}") from None
    if set(fleets) != {"main"}:
        raise LocalError(
            f"{_SHOWN_CONFIG}: the local deployment has the fleet main and no other; this names "
            f"{', '.join(sorted(fleets)) or 'none'}. Add queues to fleets.main.queues"
        )


def synthesize(run_dir: Path) -> Path:
    """Return the folder of the synthesized stacks; two processes at once synthesize once.

    Logs are in `run_dir`. Raises LocalError when the app fails.
    """
    config = run_dir / "joblane.toml"
    text = local_config(platform.machine())
    config.write_text(text, encoding="utf-8")
    BUILD.mkdir(exist_ok=True)
    sources = [ROOT / name for name in (*SOURCES, *LOCKED)]
    assembly = BUILD / f"assembly-{digest(ROOT, [text], sources)}"
    with (BUILD / "assembly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if assembly.exists():
            return assembly
        # Another process may be deploying the newest one, or its functions have their layer there.
        for old in sorted(BUILD.glob("assembly-*"), key=lambda path: path.stat().st_mtime)[:-1]:
            shutil.rmtree(old)
        fresh = run_dir / "cdk.out"
        _run_app(run_dir, config, fresh)
        leave_the_agents_role(fresh)
        link_copies(fresh)
        # Renamed at the end, so that an interrupted synthesis is not used.
        copy = BUILD / f"{assembly.name}.{os.getpid()}"
        shutil.move(fresh, copy)
        copy.rename(assembly)
    return assembly


def _run_app(run_dir: Path, config: Path, into: Path) -> None:
    """Run the CDK app as `cdk synth` would, which takes twice as long.

    Raises LocalError when it fails.
    """
    settings = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    env = {
        **_environment(),
        "CDK_DEFAULT_ACCOUNT": ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        "CDK_OUTDIR": str(into),
        "CDK_VALIDATION": "false",  # of templates, by the CDK: tests/infra do it
        "CDK_CONTEXT_JSON": json.dumps({**settings["context"], "config": str(config)}),
    }
    app = ["env", "-C", str(ROOT), *settings["app"].split()]
    process = Process.start("synthesis", app, run_dir=run_dir, env=env)
    try:
        code = process.wait(CDK_TIMEOUT_S)
    finally:
        process.stop(STOP_GRACE_S)
    try:
        _require_success(process, code)
    except LocalError as error:  # the app read a copy, which is written anew each time
        raise LocalError(str(error).replace(str(config), str(_SHOWN_CONFIG))) from None


def link_copies(assembly: Path) -> None:
    """Make what the CDK has copied from `.build`, 76 MB, one with the originals.

    Each file of the layer and the archives of agents is replaced by a link to a file of the same
    content; nothing writes to either.
    """
    for folder in assembly.glob("asset.*/python"):
        for original in BUILD.glob("layer-*/python"):
            for copy in folder.rglob("*"):
                _link(copy, original / copy.relative_to(folder))
    for copy in assembly.glob("asset.*.zip"):
        for original in BUILD.glob("agent-*.zip"):
            _link(copy, original)


def _link(copy: Path, original: Path) -> None:
    if not original.is_file() or copy.stat().st_nlink > 1:  # linked already
        return
    if filecmp.cmp(copy, original, shallow=False):
        linked = copy.with_name(f"{copy.name}.linked")
        linked.hardlink_to(original)
        linked.replace(copy)


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
    dynamodb = boto3.client("dynamodb", **ministack.root())
    for table, attribute in _list_ttls(assembly):
        now = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if now.get("TimeToLiveStatus") != "ENABLED":
            dynamodb.update_time_to_live(
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": attribute},
            )


def set_where_to_log_in(ministack: MiniStack, outputs: Mapping[str, str]) -> None:
    """Configure the addresses of MiniStack's user pool and of the console. Idempotent.

    The admin function says where to log in. The people's client may send browsers back to the
    console, whose page finds the user pool at its own origin here.
    """
    pool = outputs["UserPoolId"]
    functions = boto3.client("lambda", **ministack.root())
    name = "joblane-admin"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    login = json.loads(variables["JOBLANE_LOGIN"])
    login["openid_configuration"] = f"{ministack.endpoint}/{pool}/.well-known/openid-configuration"
    variables["JOBLANE_LOGIN"] = json.dumps(login)
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
    functions.update_function_configuration(
        FunctionName="joblane-console", Environment={"Variables": {"JOBLANE_CONNECT": ""}}
    )
    console = f"{api_url(ministack, outputs)}{CONSOLE_PATH}"
    # MiniStack keeps what a change does not name; AWS would set it to its default.
    boto3.client("cognito-idp", **ministack.root()).update_user_pool_client(
        UserPoolId=pool,
        ClientId=outputs["LoginClientId"],
        CallbackURLs=[*LOGIN_CALLBACKS, console],
        LogoutURLs=[console],
    )


def _list_ttls(assembly: Path) -> Iterator[tuple[str, str]]:
    """Yield each table of the synthesized templates with its TTL attribute."""
    for template in sorted(assembly.glob("*.template.json")):
        resources: dict[str, Any] = json.loads(template.read_text(encoding="utf-8"))["Resources"]
        for resource in resources.values():
            ttl = resource.get("Properties", {}).get("TimeToLiveSpecification")
            if resource["Type"] == "AWS::DynamoDB::Table" and ttl:
                yield resource["Properties"]["TableName"], ttl["AttributeName"]


@contextmanager
def _cdk(ministack: MiniStack, run_dir: Path, command: str, *arguments: str) -> Iterator[None]:
    """Run a command of the CDK beside a block, which ends when both have.

    Raises LocalError when the command fails; ends it when the block fails.
    """
    env = {
        **_environment(),
        **ministack.environment(),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    # The CDK reads cdk.json from where it runs, and the app's paths in it are relative. The
    # bootstrap has no use for an app: it runs where there is none, or two copies of this would
    # meet in one cdk.out.
    where = run_dir if command == "bootstrap" else ROOT
    program = ["env", "-C", str(where), str(CDK), command, *arguments, "--no-notices", "--no-color"]
    process = Process.start(f"cdk-{command}", program, run_dir=run_dir, env=env)
    try:
        yield
        code = process.wait(CDK_TIMEOUT_S)
    finally:
        process.stop(STOP_GRACE_S)
    if code != 0:
        ministack.require_alive()
    _require_success(process, code)


def _environment() -> dict[str, str]:
    """Return the variables of the CDK and of its app.

    uv, within the app, needs the user's HOME, proxies and certificates; but no variable may direct
    the CDK to a real account.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "CDK_", "JOBLANE_"))
    }
    return {**kept, "PATH": f"{BIN}:{TOOLS}:{kept.get('PATH', os.defpath)}"}


def _require_success(process: Process, code: int | None) -> None:
    if code != 0:
        raise LocalError(
            f"{process.what} failed with exit code {code}: {process.last_words()} "
            f"(all of it: {process.log})"
        )
