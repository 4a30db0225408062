"""Lambda on the local AWS: the layers that workers share."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from scripts.local.emulator import MiniStack, bind, start_ministack

CALLS = 6

LAYERED = """
import os, shared
def handler(event, context):
    return [os.getpid(), os.path.realpath(shared.__file__)]
"""

Invoke = Callable[[], Any]
Create = Callable[[str, str], Invoke]


def zipped(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # of 1980: same content, same bytes
    return made.getvalue()


@pytest.fixture(name="ministack", scope="module")
def _ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniStack]:
    with bind() as server:
        ministack = start_ministack(tmp_path_factory.mktemp("lambda"), server)
    yield ministack
    ministack.stop()


@pytest.fixture(name="create")
def _create(ministack: MiniStack) -> Create:
    """Create a function; returns what calls it and returns its answer."""
    patient = Config(read_timeout=60, retries={"total_max_attempts": 1}, max_pool_connections=CALLS)
    client = boto3.client("lambda", config=patient, **ministack.root())
    iam = boto3.client("iam", **ministack.root())

    def create(name: str, layer: str) -> Invoke:
        trust = {"Version": "2012-10-17", "Statement": []}
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        content = zipped({"python/shared.py": layer})
        published = client.publish_layer_version(LayerName=name, Content={"ZipFile": content})
        client.create_function(
            FunctionName=name,
            Role=role["Role"]["Arn"],
            Runtime="python3.11",
            Handler="code.handler",
            Timeout=60,
            Code={"ZipFile": zipped({"code.py": LAYERED})},
            Layers=[published["LayerVersionArn"]],
        )
        return lambda: json.load(client.invoke(FunctionName=name)["Payload"])

    return create


def test_workers_share_the_layers_and_have_the_newest(create: Create):
    invoke = create("layered", "first = 1")
    with ThreadPoolExecutor(CALLS) as pool:
        answers = list(pool.map(lambda _: invoke(), range(CALLS)))
    again = create("layered-again", "first = 1")()
    other = create("layered-other", "other = 1")()
    ((path,),) = ({path for _, path in [*answers, again]},)
    assert "first = 1" == Path(path).read_text(encoding="utf-8")
    assert "other = 1" == Path(other[1]).read_text(encoding="utf-8")
