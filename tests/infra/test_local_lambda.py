"""Lambda on the local AWS: the layers that workers share, and forks."""

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
from scripts.local.processes import wait_until

CALLS = 6

LAYERED = """
import os, shared
def handler(event, context):
    return [os.getpid(), os.path.realpath(shared.__file__)]
"""

OURS = {
    "python/joblane/where.py": "import os\npid = os.getpid()",
    "python/joblane/broken.py": "1 / 0",
}
PRELOADED = """
import os, time, joblane.where
def handler(event, context):
    if event == "end":
        os._exit(3)
    if event == "hang":
        time.sleep(60)
    return [os.getpid(), joblane.where.pid, context.function_name, os.environ["AWS_ACCESS_KEY_ID"]]
"""

Invoke = Callable[..., Any]
Create = Callable[..., Invoke]


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

    def create(name: str, code: str, layer: str | None = None, timeout_s: int = 60) -> Invoke:
        trust = {"Version": "2012-10-17", "Statement": []}
        policy = {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "*"}
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        iam.put_role_policy(
            RoleName=name,
            PolicyName=name,
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [policy]}),
        )
        layers = []
        if layer is not None:
            content = zipped({"python/shared.py": layer, **OURS})
            published = client.publish_layer_version(LayerName=name, Content={"ZipFile": content})
            layers.append(published["LayerVersionArn"])
        client.create_function(
            FunctionName=name,
            Role=role["Role"]["Arn"],
            Runtime="python3.11",
            Handler="code.handler",
            Timeout=timeout_s,
            Code={"ZipFile": zipped({"code.py": code})},
            Layers=layers,
        )

        def invoke(event: object = None) -> Any:
            answer = client.invoke(FunctionName=name, Payload=json.dumps(event))
            return json.load(answer["Payload"])

        return invoke

    return create


def at_once(invoke: Invoke) -> list[Any]:
    with ThreadPoolExecutor(CALLS) as pool:
        return list(pool.map(lambda _: invoke(), range(CALLS)))


def test_workers_share_the_layers_and_have_the_newest(create: Create):
    answers = at_once(create("layered", LAYERED, "first = 1"))
    again = create("layered-again", LAYERED, "first = 1")()
    other = create("layered-other", LAYERED, "other = 1")()
    ((path,),) = ({path for _, path in [*answers, again]},)
    assert "first = 1" == Path(path).read_text(encoding="utf-8")
    assert "other = 1" == Path(other[1]).read_text(encoding="utf-8")


def test_workers_are_forked_from_what_has_imported_the_layer_and_have_an_environment_of_their_own(
    create: Create,
):
    answers = [create(name, PRELOADED, "forked = 1")() for name in ("fork-one", "fork-two")]
    pids, servers, names, keys = map(set, zip(*answers, strict=True))
    assert ({"fork-one", "fork-two"}, 2) == (names, len(keys))
    assert (2, 1) == (len(pids), len(servers))
    assert not pids & servers


def test_a_forked_worker_that_ends_or_hangs_is_followed_by_another(create: Create):
    invoke = create("mortal", PRELOADED, "mortal = 1", timeout_s=2)
    first = invoke()[0]
    assert "died" in invoke("end")["errorMessage"]
    second = invoke()[0]
    assert "timed out" in invoke("hang")["errorMessage"]
    # A signal is sent before it takes effect, and the answer may come between.
    assert wait_until(lambda: not Path(f"/proc/{second}").exists(), 5)
    assert invoke()[0] not in {first, second}
