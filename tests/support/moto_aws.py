"""The test deployment in moto, for tests of what it does better than the memory."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from moto import mock_aws
from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data

from joblane.aws.clients import Clients
from joblane.deployment.names import descriptor_name, topic_name
from joblane.testing.memory.schemas import SCHEMAS
from tests.support.aws import (
    DESCRIPTOR,
    NAME,
    PREFIX,
    Cloud,
    OneEach,
    cloud_of,
    new_session,
    queue_urls,
)


@contextmanager
def answering() -> Iterator[None]:
    """Let moto answer from empty backends.

    Not by moto's own reset, which reads all of IAM's managed policies again.
    """
    mock = mock_aws()
    mock.start(reset=False)
    # moto has no other list of them, and does not declare this one as a class variable
    services: list[Any] = BackendDict._instances  # type: ignore[misc]
    for service in services:
        if service.service_name != "iam":
            for account in service.values():
                account.reset()
            service.clear()
    reset_model_data()
    try:
        yield
    finally:
        mock.stop(remove_data=False)


def moto_cloud(tables: Iterable[str] = SCHEMAS, queues: Iterable[str] | None = None) -> Cloud:
    """Make the stacks' resources in moto, which is active; of tables and queues, some or all."""
    clients = _clients()
    _make(clients, tables, queue_urls() if queues is None else queues)
    return cloud_of(new_session, clients)


@cache
def _clients() -> Clients:
    """The same clients for all tests: making them takes longer than most tests."""
    return OneEach(new_session())


def _make(clients: Clients, tables: Iterable[str], queues: Iterable[str]) -> None:
    dynamodb = clients.make("dynamodb")
    for name in tables:
        dynamodb.create_table(TableName=name, **SCHEMAS[name].definition())
    sqs = clients.make("sqs")
    for url in queues:
        sqs.create_queue(QueueName=url.removeprefix(PREFIX))
    clients.make("s3").create_bucket(Bucket=DESCRIPTOR.bucket)
    clients.make("sns").create_topic(Name=topic_name(NAME))
    clients.make("ssm").put_parameter(
        Name=descriptor_name(NAME), Value=DESCRIPTOR.model_dump_json(), Type="String"
    )
    clients.make("stepfunctions").create_state_machine(
        name=f"{NAME}-recovery",
        definition='{"StartAt": "Begin", "States": {"Begin": {"Type": "Succeed"}}}',
        roleArn="arn:aws:iam::123456789012:role/recovery",
    )
