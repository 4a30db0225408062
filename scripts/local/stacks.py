"""Creates the synthesized stacks without the CDK's command line, which takes several times as long.

For tests, which deploy several times; tests/e2e/test_deploy.py compares the two.
"""

import io
import json
import zipfile
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import boto3

from scripts.local.emulator import ACCOUNT, REGION, MiniStack
from scripts.local.errors import LocalError
from scripts.local.lambda_workers import reference
from scripts.local.processes import wait_until

ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
VERSION_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
TIMEOUT_S = 60.0


def create_stacks(ministack: MiniStack, assembly: Path) -> dict[str, str]:
    """Create all stacks, each behind those that it needs; returns the outputs of the API's.

    Raises LocalError when one fails.
    """
    _publish(ministack, assembly)
    artifacts = json.loads((assembly / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    stacks = {
        name: artifact
        for name, artifact in artifacts.items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    cloudformation = boto3.client("cloudformation", **ministack.root())

    def stack(name: str) -> dict[str, Any]:
        return dict(cloudformation.describe_stacks(StackName=name)["Stacks"][0])

    needed = {name: stacks.keys() & each.get("dependencies", ()) for name, each in stacks.items()}
    for name in TopologicalSorter(needed).static_order():
        template = stacks[name]["properties"]["stackTemplateAssetObjectUrl"].rpartition("/")[2]
        cloudformation.create_stack(
            StackName=name,
            TemplateURL=f"https://s3.amazonaws.com/{ASSETS}/{template}",
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        wait_until(lambda: "IN_PROGRESS" not in stack(name)["StackStatus"], TIMEOUT_S)  # noqa: B023
        if (state := stack(name)["StackStatus"]) != "CREATE_COMPLETE":
            raise LocalError(f"the stack {name} is {state}: see {ministack.process.log}")
    return {each["OutputKey"]: each["OutputValue"] for each in stack("joblane-api")["Outputs"]}


def _publish(ministack: MiniStack, assembly: Path) -> None:
    """Store what the templates name, and themselves, where `cdk bootstrap` would make room."""
    s3 = boto3.client("s3", **ministack.root())
    s3.create_bucket(Bucket=ASSETS)
    # The templates look for it.
    boto3.client("ssm", **ministack.root()).put_parameter(
        Name=VERSION_PARAMETER, Value="30", Type="String"
    )
    files: dict[str, dict[str, str]] = {}
    for manifest in assembly.glob("*.assets.json"):
        for asset in json.loads(manifest.read_text(encoding="utf-8"))["files"].values():
            (place,) = asset["destinations"].values()
            files[place["objectKey"]] = asset["source"]
    for key, source in files.items():
        path = assembly / source["path"]
        if source["packaging"] == "file":
            body = path.read_bytes()
        elif (path / "python").is_dir():  # 65 MB, which all functions share
            body = reference(path.resolve())
        else:
            body = _zip(path)
        s3.put_object(Bucket=ASSETS, Key=key, Body=body)


def _zip(folder: Path) -> bytes:
    """The files below a folder, not compressed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return content.getvalue()
