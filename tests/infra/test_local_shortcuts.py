"""The local AWS answers as before with what it keeps: policies, expressions, layers of functions.

MiniStack runs as `scripts/local/launcher.py` starts it; calls are made twice or more, so that
the later ones meet what the first has left.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from scripts.local.emulator import ACCOUNT, REGION, MiniStack, bind, start_ministack

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

As = Callable[[str, str], Any]


@pytest.fixture(name="ministack", scope="module")
def _ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniStack]:
    with bind() as server:
        ministack = start_ministack(tmp_path_factory.mktemp("shortcuts"), server)
    yield ministack
    ministack.stop()


@pytest.fixture(name="sqs")
def _sqs(ministack: MiniStack) -> "SQSClient":
    return boto3.client("sqs", **ministack.root())


@pytest.fixture(name="dynamodb")
def _dynamodb(ministack: MiniStack) -> "DynamoDBClient":
    return boto3.client("dynamodb", **ministack.root())


@pytest.fixture(name="table")
def _table(dynamodb: "DynamoDBClient", request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    return str(name)


@pytest.fixture(name="as_role")
def _as_role(ministack: MiniStack) -> As:
    """Make a role without permissions; returns what makes clients of it."""
    iam, sts = boto3.client("iam", **ministack.root()), boto3.client("sts", **ministack.root())

    def as_role(role: str, service: str) -> Any:
        principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        trust = policy("Allow", "sts:AssumeRole", Principal=principal)
        made = iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
        session = sts.assume_role(RoleArn=made["Role"]["Arn"], RoleSessionName=role)
        keys = session["Credentials"]
        return boto3.client(  # type: ignore[call-overload] # of any service
            service,
            endpoint_url=ministack.endpoint,
            region_name=REGION,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )

    return as_role


def policy(effect: str, action: str, **more: object) -> str:
    statement = {"Effect": effect, "Action": action, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def is_allowed(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        if error.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}:
            return False
        raise
    return True


def test_a_changed_inline_policy_counts_at_once(
    ministack: MiniStack, sqs: "SQSClient", as_role: As
):
    iam = boto3.client("iam", **ministack.root())
    url = sqs.create_queue(QueueName="inline")["QueueUrl"]
    client = as_role("inline", "sqs")

    def put(document: str) -> None:
        iam.put_role_policy(RoleName="inline", PolicyName="p", PolicyDocument=document)

    def receives() -> bool:
        return is_allowed(lambda: client.receive_message(QueueUrl=url))

    assert not receives()
    allowed = policy("Allow", "sqs:ReceiveMessage", Resource="*")
    for _ in range(2):
        put(allowed)
        assert receives()
        assert receives()
        put(policy("Allow", "sqs:ReceiveMessage", Resource=f"arn:aws:sqs:{REGION}:{ACCOUNT}:no"))
        assert not receives()
        put(allowed)
        assert receives()
        iam.delete_role_policy(RoleName="inline", PolicyName="p")
        assert not receives()


def test_a_new_version_of_an_attached_policy_counts_at_once(
    ministack: MiniStack, sqs: "SQSClient", as_role: As
):
    iam = boto3.client("iam", **ministack.root())
    url = sqs.create_queue(QueueName="attached")["QueueUrl"]
    client = as_role("attached", "sqs")
    document = policy("Allow", "sqs:*", Resource="*")
    arn = iam.create_policy(PolicyName="attached", PolicyDocument=document)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="attached", PolicyArn=arn)

    def receives() -> bool:
        return is_allowed(lambda: client.receive_message(QueueUrl=url))

    assert receives()
    denied = policy("Deny", "sqs:*", Resource="*")
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=denied, SetAsDefault=True)
    assert not receives()
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
    assert receives()
    iam.detach_role_policy(RoleName="attached", PolicyArn=arn)
    assert not receives()


def test_one_text_of_an_expression_serves_all_names_and_values(
    dynamodb: "DynamoDBClient", table: str
):
    def update(name: str, old: int, new: int) -> None:
        dynamodb.update_item(
            TableName=table,
            Key={"id": {"S": "a"}},
            UpdateExpression="SET #n = :new",
            ConditionExpression="attribute_not_exists(#n) OR #n = :old",
            ExpressionAttributeNames={"#n": name},
            ExpressionAttributeValues={":old": {"N": str(old)}, ":new": {"N": str(new)}},
        )

    update("one", 0, 1)
    update("two", 0, 2)
    update("one", 1, 3)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        update("one", 1, 4)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        update("two", 3, 4)
    update("two", 2, 5)
    item = dynamodb.get_item(TableName=table, Key={"id": {"S": "a"}})["Item"]
    assert {"id": {"S": "a"}, "one": {"N": "3"}, "two": {"N": "5"}} == item


@pytest.mark.parametrize(
    ("update", "condition", "message"),
    [
        ("SET a = :v", "a = = :v", "Invalid ConditionExpression: Syntax error"),
        ("PUT a = :v", "a = :v", "Invalid UpdateExpression: Syntax error"),
    ],
)
def test_a_wrong_expression_is_refused_each_time(
    dynamodb: "DynamoDBClient", table: str, update: str, condition: str, message: str
):
    for _ in range(3):
        with pytest.raises(ClientError, match=message):
            dynamodb.update_item(
                TableName=table,
                Key={"id": {"S": "a"}},
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeValues={":v": {"S": "v"}},
            )


CALLS = 6

LAYERED = """
import os, shared
def handler(event, context):
    return [os.getpid(), os.path.realpath(shared.__file__)]
"""

Create = Callable[[str, str], Callable[[], Any]]


def zipped(files: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # of 1980: same content, same bytes
    return made.getvalue()


@pytest.fixture(name="create")
def _create(ministack: MiniStack) -> Create:
    """Create a function; returns what calls it and returns its answer."""
    patient = Config(read_timeout=60, retries={"total_max_attempts": 1}, max_pool_connections=CALLS)
    client = boto3.client("lambda", config=patient, **ministack.root())
    iam = boto3.client("iam", **ministack.root())

    def create(name: str, layer: str) -> Callable[[], Any]:
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
