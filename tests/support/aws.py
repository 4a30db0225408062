"""An AWS in this process (moto), with what the stacks make, and a meter of what it is asked."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.loaders import Loader, create_loader
from moto import mock_aws

from joblane.aws.agents import AgentStore
from joblane.aws.clients import QUICK, Clients
from joblane.aws.jobs import JobStore
from joblane.aws.logs import LogStore
from joblane.config import (
    LANES,
    Descriptor,
    QueueDescriptor,
    Retention,
    alternate_name,
    bucket_name,
    dead_letter_name,
    descriptor_name,
    lane_name,
    log_group_name,
    table_name,
    topic_name,
)

NAME = "joblane"
PREFIX = "https://sqs.us-east-1.amazonaws.com/123456789012/"
QUEUES = ("default", "bulk")

INDEXES = {
    "by_tenant": ("tenant", "job_id"),
    "attention": ("attention", "job_id"),
    "wake": ("wake", "wake_at"),
}

AUDIT_TABLE = table_name(NAME, "audit")

DESCRIPTOR = Descriptor(
    name=NAME,
    jobs_table=table_name(NAME, "jobs"),
    agents_table=table_name(NAME, "agents"),
    log_group=log_group_name(NAME),
    bucket=bucket_name(NAME, "123456789012", "us-east-1"),
    queue_url_prefix=PREFIX,
    retention=Retention(),
    queues={queue: QueueDescriptor(threads=8) for queue in QUEUES},
)

FUNCTION_ENVIRONMENT = {
    "JOBLANE_DEPLOYMENT": NAME,
    "JOBLANE_JOBS_TABLE": DESCRIPTOR.jobs_table,
    "JOBLANE_AGENTS_TABLE": DESCRIPTOR.agents_table,
    "JOBLANE_CONDITIONS_TABLE": table_name(NAME, "conditions"),
    "JOBLANE_POLICIES": '{"tcp": {"policy": "constant", "every_s": 30, "most_s": 3600}}',
    "JOBLANE_AUDIT_TABLE": AUDIT_TABLE,
    "JOBLANE_LOG_GROUP": DESCRIPTOR.log_group,
    "JOBLANE_BUCKET": DESCRIPTOR.bucket,
    "JOBLANE_QUEUE_URL_PREFIX": PREFIX,
    "JOBLANE_QUEUES": '{"default": [], "bulk": ["acme"]}',
    "JOBLANE_QUEUE_NAMES": '["default", "bulk"]',
    "JOBLANE_THREADS": '{"default": 8, "bulk": 8}',
    "JOBLANE_COUNTERS_TABLE": table_name(NAME, "counters"),
    "JOBLANE_SETTINGS_TABLE": table_name(NAME, "settings"),
    "JOBLANE_DEFAULT_QUEUE": "default",
    "JOBLANE_RETENTION": Retention().model_dump_json(),
    "JOBLANE_TOPIC": f"arn:aws:sns:us-east-1:123456789012:{topic_name(NAME)}",
    "JOBLANE_LOGIN": '{"openid_configuration": "https://issuer.test/.well-known/'
    'openid-configuration", "client_id": "client-people", "scopes": [], "audience": null}',
    "JOBLANE_ACCESS": json.dumps(
        {
            "kind": "pool",
            "tenants": ["acme", "other"],
            "people": "client-people",
            "machines": {
                "client-acme": ["acme", "admin", "ci"],
                "client-other": ["other", "admin", "ci"],
            },
        }
    ),
}


@dataclass
class Meter:
    """Counts what clients of one session ask of AWS, and what DynamoDB would charge for it.

    DynamoDB charges a write by the larger of the item before and after, in whole kilobytes, and
    one unit for every index entry that is put or deleted (an entry whose key changes is both); a
    refused write costs the same, without indexes. Sizes follow the developer guide ("DynamoDB
    item sizes and formats"). Puts may come from several threads; the rest from one at a time.
    """

    calls: Counter[str] = field(default_factory=Counter)
    write_units: int = 0
    reads: int = 0
    bytes_read: int = 0
    """What DynamoDB has answered to reads, as it came over the wire."""
    _before: dict[str, Any] = field(default_factory=dict)
    _look: Callable[[], Any] = dict
    _lock: Lock = field(default_factory=Lock)

    def attach(self, session: botocore.session.Session, spare: Any) -> None:
        """Count every call of a session's clients; `spare` is a client that is not counted."""
        emitter = session.get_component("event_emitter")
        emitter.register("before-call", self._called)
        emitter.register("provide-client-params.dynamodb.PutItem", self._put)
        for operation in ("UpdateItem", "DeleteItem"):
            emitter.register(
                f"provide-client-params.dynamodb.{operation}", partial(self._before_write, spare)
            )
        emitter.register("after-call.dynamodb.UpdateItem", self._update_ended)
        emitter.register("after-call.dynamodb.DeleteItem", self._delete_ended)
        for operation in ("GetItem", "BatchGetItem", "Query"):
            emitter.register(f"after-call.dynamodb.{operation}", self._read)

    def _called(self, model: Any, **_: Any) -> None:
        with self._lock:
            self.calls[f"{model.service_model.service_name}.{model.name}"] += 1

    def _put(self, params: dict[str, Any], **_: Any) -> None:
        units = _units(item_size(params["Item"])) + len(_entries(params["Item"]))
        with self._lock:
            self.write_units += units

    def _before_write(self, spare: Any, params: dict[str, Any], **_: Any) -> None:
        self._look = lambda: spare.get_item(TableName=params["TableName"], Key=params["Key"])
        self._before = self._look().get("Item", {})

    def _update_ended(self, **_: Any) -> None:
        after = self._look().get("Item", {})  # as before, if it was refused
        size = max(item_size(self._before), item_size(after))
        self.write_units += _units(size) + len(_entries(self._before) ^ _entries(after))

    def _delete_ended(self, **_: Any) -> None:
        self.write_units += _units(item_size(self._before)) + len(_entries(self._before))

    def _read(self, http_response: Any, **_: Any) -> None:
        self.reads += 1
        self.bytes_read += len(http_response.content)


def _units(size: int) -> int:
    return max(1, math.ceil(size / 1024))


def _entries(item: dict[str, Any]) -> set[tuple[str, str]]:
    """The index entries of an item: one of under a kilobyte wherever it has the index's keys."""
    return {
        (index, str([item[name] for name in keys]))
        for index, keys in [*INDEXES.items(), ("by_job", ("job", "id"))]
        if all(name in item for name in keys)
    }


def item_size(item: dict[str, Any]) -> int:
    """Bytes of a DynamoDB item in its wire form."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: dict[str, Any]) -> int:
    (kind, content), *_ = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "N":
        return math.ceil(len(content.lstrip("-")) / 2) + 1
    if kind == "SS":
        return sum(len(member.encode()) for member in content)
    if kind == "L":
        return 3 + sum(1 + _value_size(member) for member in content)
    if kind == "M":
        return 3 + sum(1 + len(n.encode()) + _value_size(v) for n, v in content.items())
    if kind == "BOOL":
        return 1
    raise AssertionError(f"no size known for type {kind}")


@dataclass
class Cloud:
    """The deployment, in this process."""

    session: botocore.session.Session
    clients: Clients
    jobs: JobStore
    agents: AgentStore
    logs: LogStore


@contextmanager
def cloud() -> Iterator[Cloud]:
    """Make what the stacks make, in moto."""
    with mock_aws():
        session = new_session()
        clients = Clients(session)
        _make(_makers())
        yield Cloud(
            session=session,
            clients=clients,
            jobs=JobStore(clients.make("dynamodb"), DESCRIPTOR.jobs_table),
            agents=AgentStore(clients.make("dynamodb"), DESCRIPTOR.agents_table),
            logs=LogStore(clients.make("logs"), DESCRIPTOR.log_group),
        )


def new_session() -> botocore.session.Session:
    """A session with made-up credentials."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    session.set_credentials("AKIATEST", "secret", "token")
    session.set_config_variable("region", "us-east-1")
    return session


@cache
def _loader() -> Loader:
    """One loader for all sessions: reading the service models takes longer than most tests."""
    return create_loader()


class _Makers(Clients):
    """Clients that are made once: making them took a third of the time of making the cloud."""

    def __init__(self) -> None:
        super().__init__(new_session())
        self._made: dict[str, Any] = {}

    def make(self, service: Any, config: Config = QUICK) -> Any:
        if service not in self._made:
            self._made[service] = super().make(service, config)
        return self._made[service]


@cache
def _makers() -> Clients:
    return _Makers()


def _make(clients: Clients) -> None:
    dynamodb = clients.make("dynamodb")
    dynamodb.create_table(
        TableName=DESCRIPTOR.jobs_table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_schema("job_id", "sk"),
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "N" if name == "wake_at" else "S"}
            for name in ("job_id", "sk", "tenant", "attention", "wake", "wake_at")
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": index,
                "KeySchema": _schema(*keys),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for index, keys in INDEXES.items()
        ],
    )
    dynamodb.create_table(
        TableName=DESCRIPTOR.agents_table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_schema("shard", "agent"),
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("shard", "agent")
        ],
    )
    dynamodb.create_table(
        TableName=table_name(NAME, "settings"),
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "queue", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "queue", "AttributeType": "S"}],
    )
    dynamodb.create_table(
        TableName=table_name(NAME, "counters"),
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_schema("series", "at_minute"),
        AttributeDefinitions=[
            {"AttributeName": "series", "AttributeType": "S"},
            {"AttributeName": "at_minute", "AttributeType": "N"},
        ],
    )
    dynamodb.create_table(
        TableName=AUDIT_TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_schema("tenant", "id"),
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("tenant", "id", "job")
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_job",
                "KeySchema": _schema("job", "id"),
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    sqs = clients.make("sqs")
    for queue in QUEUES:
        for lane in LANES:
            sqs.create_queue(QueueName=lane_name(NAME, queue, lane))
            sqs.create_queue(QueueName=dead_letter_name(NAME, queue, lane))
    sqs.create_queue(QueueName=alternate_name(NAME))
    clients.make("s3").create_bucket(Bucket=DESCRIPTOR.bucket)
    clients.make("sns").create_topic(Name=topic_name(NAME))
    clients.make("logs").create_log_group(logGroupName=DESCRIPTOR.log_group)
    clients.make("ssm").put_parameter(
        Name=descriptor_name(NAME), Value=DESCRIPTOR.model_dump_json(), Type="String"
    )


def _schema(partition: str, sort: str) -> Any:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]
