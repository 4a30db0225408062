"""The local AWS answers as before with what it keeps: a change counts at once, each value counts.

MiniStack runs as `scripts/local/launcher.py` starts it; every call is made twice or more, so that
the later ones meet what the first has left.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError

from scripts.local.emulator import ACCOUNT, REGION, MiniStack, bind, start_ministack

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

As = Callable[[str, str], Any]
KB = 1024


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


def test_a_condition_on_the_tags_of_a_resource_is_evaluated(
    ministack: MiniStack, sqs: "SQSClient", as_role: As
):
    iam = boto3.client("iam", **ministack.root())
    url = sqs.create_queue(QueueName="tagged")["QueueUrl"]
    client = as_role("tagged", "sqs")
    tagged = {"StringEquals": {"aws:ResourceTag/Team": "ours"}}
    document = policy("Allow", "sqs:ReceiveMessage", Resource="*", Condition=tagged)
    iam.put_role_policy(RoleName="tagged", PolicyName="p", PolicyDocument=document)

    def receives() -> bool:
        return is_allowed(lambda: client.receive_message(QueueUrl=url))

    assert not receives()
    sqs.tag_queue(QueueUrl=url, Tags={"Team": "ours"})
    assert receives()
    sqs.tag_queue(QueueUrl=url, Tags={"Team": "theirs"})
    assert not receives()


def test_a_queues_policy_names_one_role_and_counts_at_once(
    ministack: MiniStack, sqs: "SQSClient", as_role: As
):
    """It denies what the role's own policy allows, so the queue sees who calls."""
    iam = boto3.client("iam", **ministack.root())
    url = sqs.create_queue(QueueName="guarded")["QueueUrl"]
    clients = [as_role(name, "sqs") for name in ("guarded-one", "guarded-two")]
    for name in ("guarded-one", "guarded-two"):
        document = policy("Allow", "sqs:*", Resource="*")
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=document)

    def receive() -> list[bool]:
        return [is_allowed(lambda c=c: c.receive_message(QueueUrl=url)) for c in clients]  # type: ignore[misc]

    def deny(name: str) -> None:
        principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:role/{name}"}
        document = policy("Deny", "sqs:ReceiveMessage", Resource="*", Principal=principal)
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})

    assert [True, True] == receive()
    deny("guarded-one")
    assert [False, True] == receive()
    deny("guarded-two")
    assert [True, False] == receive()
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert [True, True] == receive()


def test_tables_of_a_request_are_authorized_each(
    ministack: MiniStack, dynamodb: "DynamoDBClient", table: str, as_role: As
):
    iam = boto3.client("iam", **ministack.root())
    client = as_role("reader", "dynamodb")
    resource = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"
    document = policy("Allow", "dynamodb:GetItem", Resource=resource)
    iam.put_role_policy(RoleName="reader", PolicyName="p", PolicyDocument=document)
    dynamodb.create_table(
        TableName="other",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for _ in range(2):
        for name, expected in ((table, True), ("other", False)):
            key = {"id": {"S": "a"}}
            assert expected == is_allowed(lambda n=name, k=key: client.get_item(TableName=n, Key=k))  # type: ignore[misc]
            assert not is_allowed(
                lambda n=name, k=key: client.delete_item(TableName=n, Key=k)  # type: ignore[misc]
            )


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
        ("SET a = :v", "((a = :v))", "Invalid ConditionExpression: .*redundant parentheses"),
        ("SET a = :v", "status = :v", "reserved keyword: status"),
        ("SET status = :v", "a <> :v", "reserved keyword: status"),
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


def test_an_error_names_the_expression_that_has_it(dynamodb: "DynamoDBClient", table: str):
    """Both are the same text."""
    wrong = "((a = :v))"
    values: Any = {":v": {"S": "v"}}
    key: Any = {"id": {"S": "a"}}
    for _ in range(2):
        with pytest.raises(ClientError, match="Invalid FilterExpression"):
            dynamodb.scan(TableName=table, FilterExpression=wrong, ExpressionAttributeValues=values)
        with pytest.raises(ClientError, match="Invalid ConditionExpression"):
            dynamodb.delete_item(
                TableName=table,
                Key=key,
                ConditionExpression=wrong,
                ExpressionAttributeValues=values,
            )


def test_an_update_is_refused_for_its_own_size(dynamodb: "DynamoDBClient", table: str):
    """Each use of a value counts, also one that is not stored."""
    key: Any = {"id": {"S": "a"}}
    dynamodb.put_item(TableName=table, Item={**key, "a": {"S": "a"}})

    def update(uses: int) -> None:
        names = [f"b{number}" for number in range(uses)]
        dynamodb.update_item(
            TableName=table,
            Key=key,
            UpdateExpression="SET " + ", ".join(f"{n} = if_not_exists(a, :v)" for n in names),
            ExpressionAttributeValues={":v": {"S": "v" * (150 * KB)}},
        )

    update(2)
    with pytest.raises(ClientError, match="size"):
        update(3)


def test_an_update_leaves_the_images_of_earlier_ones(
    ministack: MiniStack, dynamodb: "DynamoDBClient", table: str
):
    key: Any = {"id": {"S": "a"}}
    first: Any = {**key, "l": {"L": [{"M": {"n": {"N": "1"}}}]}, "b": {"B": b"\x00\xff"}}
    dynamodb.put_item(TableName=table, Item=first)
    answer = dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET l[0].n = :two",
        ExpressionAttributeValues={":two": {"N": "2"}},
        ReturnValues="ALL_OLD",
    )
    assert first == answer["Attributes"]
    answer = dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET l = list_append(l, :more)",
        ExpressionAttributeValues={":more": {"L": [{"BOOL": True}, {"NULL": True}]}},
        ReturnValues="ALL_NEW",
    )
    third = answer["Attributes"]
    assert [{"M": {"n": {"N": "2"}}}, {"BOOL": True}, {"NULL": True}] == third["l"]["L"]
    records = records_of(ministack, dynamodb, table)
    images = [(r["dynamodb"].get("OldImage"), r["dynamodb"]["NewImage"]) for r in records]
    second = {**first, "l": {"L": [{"M": {"n": {"N": "2"}}}]}}
    assert [(None, first), (first, second), (second, third)] == images


def records_of(ministack: MiniStack, dynamodb: "DynamoDBClient", table: str) -> list[Any]:
    streams = boto3.client("dynamodbstreams", **ministack.root())
    arn = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return list(streams.get_records(ShardIterator=iterator)["Records"])


def test_messages_come_once_in_turn_with_all_their_fields(sqs: "SQSClient"):
    url = sqs.create_queue(QueueName="turns")["QueueUrl"]
    for number in range(25):
        sqs.send_message(
            QueueUrl=url,
            MessageBody=str(number),
            DelaySeconds=900 if number == 1 else 0,
            MessageAttributes={"n": {"DataType": "Number", "StringValue": str(number)}},
        )

    def receive(most: int, hidden_s: int = 60) -> list[str]:
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=most,
            VisibilityTimeout=hidden_s,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        for message in answer.get("Messages", []):
            assert message["Body"] == message["MessageAttributes"]["n"]["StringValue"]
            assert "1" == message["Attributes"]["ApproximateReceiveCount"]
            assert int(message["Attributes"]["SentTimestamp"]) > 0
            assert message["MessageId"]
        return [message["Body"] for message in answer.get("Messages", [])]

    assert ["0"] == receive(1)
    assert [str(number) for number in range(2, 12)] == receive(10)
    assert [str(number) for number in range(12, 22)] == receive(10)
    assert ["22", "23", "24"] == receive(10)
    assert [] == receive(10)
    wanted: Any = ["ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
    assert ["24", "1"] == [counts[name] for name in wanted]


def test_a_message_moves_to_the_dead_letter_queue(sqs: "SQSClient"):
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    url = sqs.create_queue(QueueName="alive")["QueueUrl"]

    def move_after(count: int) -> None:
        target = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
        redrive = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": count})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": redrive})

    def receive(queue: str) -> list[str]:
        answer = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)
        return [message["Body"] for message in answer.get("Messages", [])]

    move_after(2)
    sqs.send_message(QueueUrl=url, MessageBody="a")
    assert [["a"], ["a"], []] == [receive(url) for _ in range(3)]
    assert ["a"] == receive(dead)
    sqs.send_message(QueueUrl=url, MessageBody="b")
    move_after(5)
    assert [["b"]] * 3 == [receive(url) for _ in range(3)]
    move_after(3)
    assert [] == receive(url)


def test_messages_of_a_group_come_one_by_one(sqs: "SQSClient"):
    url = sqs.create_queue(
        QueueName="groups.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )["QueueUrl"]
    for body in ("a1", "a2", "b1"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=body[0])
    first, second = (
        [m["Body"] for m in sqs.receive_message(QueueUrl=url).get("Messages", [])] for _ in "ab"
    )
    assert (["a1"], ["b1"]) == (first, second)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_request_is_by_the_session_that_signed_it(ministack: MiniStack, as_role: As):
    """Systems Manager stores who changed a setting."""
    iam = boto3.client("iam", **ministack.root())
    setting = "/ssm/parameter-store/high-throughput-enabled"
    clients = {f"sts::{ACCOUNT}:assumed-role/{n}/{n}": as_role(n, "ssm") for n in ("ann", "bob")}
    for name in ("ann", "bob"):
        document = policy("Allow", "ssm:*", Resource="*")
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=document)
    clients[f"iam::{ACCOUNT}:root"] = boto3.client("ssm", **ministack.root())
    for caller, client in clients.items():
        client.update_service_setting(SettingId=setting, SettingValue="true")
        changed = client.get_service_setting(SettingId=setting)["ServiceSetting"]
        assert f"arn:aws:{caller}" == changed["LastModifiedUser"]
