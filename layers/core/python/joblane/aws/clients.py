"""Create AWS clients, with timeouts for each kind of caller.

Uses botocore directly: boto3 adds 40 ms to a cold start (scripts/bench imports), and none of its
features are needed.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import botocore.session
from botocore.config import Config

from joblane.aws.errors import AwsSilent, translate
from joblane.aws.models import Models

if TYPE_CHECKING:
    from mypy_boto3_autoscaling.client import AutoScalingClient
    from mypy_boto3_cloudwatch.client import CloudWatchClient
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_events.client import EventBridgeClient
    from mypy_boto3_lambda.client import LambdaClient
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_sns.client import SNSClient
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_ssm.client import SSMClient
    from mypy_boto3_stepfunctions.client import SFNClient

T = TypeVar("T")

QUICK = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=20,
)
"""For calls that take milliseconds: one call must not use up a function's 29 s."""

ONCE = Config(
    connect_timeout=2,
    read_timeout=20,
    retries={"mode": "standard", "total_max_attempts": 1},
)
"""For a call that must not be made twice, although its answer may be lost."""

COPY = Config(
    connect_timeout=2,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 1},
    max_pool_connections=20,
)
"""For copies of objects of up to 5 GB, which S3 answers when they are there."""

LONG_POLL = Config(
    connect_timeout=2,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=20,
)
"""For SQS long polls, which take up to 20 s."""

TRANSFER = Config(
    connect_timeout=2,
    read_timeout=60,
    retries={"mode": "standard", "total_max_attempts": 3},
    max_pool_connections=20,
)
"""For files of up to 5 GiB: S3 answers an upload after it has stored all of it."""


class Clients:
    """Makes clients from one session, so that service models are loaded once."""

    def __init__(self, session: botocore.session.Session | None = None) -> None:
        if session is None:
            session = botocore.session.get_session()
            session.register_component("data_loader", Models())
        self._session = session

    def of_session(self, find: "Callable[[botocore.session.Session], T]") -> T:
        """Ask the session for something, such as its credentials."""
        return find(self._session)

    @overload
    def make(
        self, service: Literal["autoscaling"], config: Config = QUICK
    ) -> "AutoScalingClient": ...
    @overload
    def make(
        self, service: Literal["cloudwatch"], config: Config = QUICK
    ) -> "CloudWatchClient": ...
    @overload
    def make(self, service: Literal["dynamodb"], config: Config = QUICK) -> "DynamoDBClient": ...
    @overload
    def make(self, service: Literal["events"], config: Config = QUICK) -> "EventBridgeClient": ...
    @overload
    def make(self, service: Literal["sqs"], config: Config = QUICK) -> "SQSClient": ...
    @overload
    def make(self, service: Literal["s3"], config: Config = QUICK) -> "S3Client": ...
    @overload
    def make(self, service: Literal["sns"], config: Config = QUICK) -> "SNSClient": ...
    @overload
    def make(
        self, service: Literal["secretsmanager"], config: Config = QUICK
    ) -> "SecretsManagerClient": ...
    @overload
    def make(self, service: Literal["ssm"], config: Config = QUICK) -> "SSMClient": ...
    @overload
    def make(self, service: Literal["stepfunctions"], config: Config = QUICK) -> "SFNClient": ...
    @overload
    def make(self, service: Literal["lambda"], config: Config = QUICK) -> "LambdaClient": ...
    def make(self, service: str, config: Config = QUICK) -> object:
        """Make a client; region, endpoint and credentials come from the environment.

        Its calls raise Unavailable.
        """
        client: object = self._session.create_client(service, config=config)
        translate(client)
        return client


class LazyClients(Clients):
    """Creates clients when they are first used.

    For a long-lived process that seldom needs most of them: a client takes 1 to 5 MB of memory,
    and an agent without jobs uses three of its ten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()  # botocore's sessions are not thread-safe

    def of_session(self, find: "Callable[[botocore.session.Session], T]") -> T:
        """See Clients."""
        with self._lock:
            return super().of_session(find)

    def make(self, service: Any, config: Config = QUICK) -> Any:
        """Return a proxy that creates the client when it is first used."""

        def make_client() -> object:
            try:
                return super(LazyClients, self).make(service, config)
            except OSError as error:
                raise NoClient(service=service, error=error) from None

        return _Promised(make_client, self._lock)


class NoClient(AwsSilent):
    """A client could not be created for lack of descriptors or memory; treated as an AWS error."""

    fmt = "could not create a client for {service}: {error}"


class _Promised:
    """A proxy that creates its client on first use."""

    def __init__(self, make: Callable[[], object], lock: threading.Lock) -> None:
        self._make = make
        self._lock = lock
        self._client: object = None

    def __getattr__(self, name: str) -> object:
        with self._lock:
            if self._client is None:
                self._client = self._make()
        return getattr(self._client, name)
