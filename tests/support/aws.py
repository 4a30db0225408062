"""The test deployment: its names, and what its resources are reached by."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import botocore.session
from botocore.config import Config
from botocore.loaders import Loader, create_loader
from pydantic import BaseModel

from joblane.aws.clients import QUICK, Clients
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.deployment.descriptor import Descriptor, QueueDescriptor
from joblane.deployment.names import (
    LANES,
    alternate_name,
    bucket_name,
    dead_letter_name,
    due_name,
    exports_dead_name,
    exports_name,
    notify_name,
    recovery_name,
    table_name,
    topic_name,
    traces_dead_name,
    traces_name,
)
from joblane.job.head import Head
from joblane.state.retention import Retention
from joblane.testing.memory import schemas, sqs

S = TypeVar("S", bound=BaseModel)

NAME = schemas.NAME
PREFIX = sqs.PREFIX
QUEUES = ("default", "bulk")

KEYS_TABLE = table_name(NAME, "keys")

AUDIT_TABLE = table_name(NAME, "audit")

JOBS_TOPIC = "arn:aws:sns:us-east-1:123456789012:jobs-of-acme"
"""A topic that jobs of the tenant acme may notify."""

DESCRIPTOR = Descriptor(
    name=NAME,
    jobs_table=table_name(NAME, "jobs"),
    agents_table=table_name(NAME, "agents"),
    output_table=table_name(NAME, "output"),
    bucket=bucket_name(NAME, "123456789012", "us-east-1"),
    queue_url_prefix=PREFIX,
    retention=Retention(),
    recovery_arn=f"arn:aws:states:us-east-1:123456789012:stateMachine:{recovery_name(NAME)}",
    queues={queue: QueueDescriptor(threads=8) for queue in QUEUES},
)

FUNCTION_ENVIRONMENT = {
    "JOBLANE_DEPLOYMENT": NAME,
    "JOBLANE_JOBS_TABLE": DESCRIPTOR.jobs_table,
    "JOBLANE_AGENTS_TABLE": DESCRIPTOR.agents_table,
    "JOBLANE_CONDITIONS_TABLE": table_name(NAME, "conditions"),
    "JOBLANE_POLICIES": '{"tcp": {"policy": "constant", "every_s": 30, "most_s": 3600}}',
    "JOBLANE_AUDIT_TABLE": AUDIT_TABLE,
    "JOBLANE_OUTPUT_TABLE": DESCRIPTOR.output_table,
    "JOBLANE_TYPES_TABLE": DESCRIPTOR.types_table,
    "JOBLANE_ARCHITECTURES": '["x86_64", "arm64"]',
    "JOBLANE_BUCKET": DESCRIPTOR.bucket,
    "JOBLANE_QUEUE_URL_PREFIX": PREFIX,
    "JOBLANE_QUEUES": '{"default": [], "bulk": ["acme"]}',
    "JOBLANE_RETIRED": "{}",
    "JOBLANE_MAXIMA": '{"default": [{"memory_mb": 4096, "cpus": 2, "disk_mb": 90000},'
    ' {"memory_mb": 1024, "disk_mb": 90000}]}',
    "JOBLANE_FLEET_QUEUES": '{"main": ["default"], "others": ["elsewhere"]}',
    "JOBLANE_WITHOUT_HOST_NETWORK": "[]",
    "JOBLANE_FLEET_PLANS": '[{"name": "main", "queues": ["default"], "slots": 8, "idle_s": 300}]',
    "JOBLANE_LIMITS": "{}",
    "JOBLANE_JOBS_RUNNING": '{"acme": 10000, "other": 10000}',
    "JOBLANE_TENANTS": '["acme", "other"]',
    "JOBLANE_THREADS": '{"default": 8, "bulk": 8}',
    "JOBLANE_COUNTERS_TABLE": table_name(NAME, "counters"),
    "JOBLANE_KEYS_TABLE": KEYS_TABLE,
    "JOBLANE_SETTINGS_TABLE": table_name(NAME, "settings"),
    "JOBLANE_DEFAULT_QUEUE": "default",
    "JOBLANE_DEFAULT_QUEUES": "{}",
    "JOBLANE_DEADLINES": "{}",
    "JOBLANE_FILTERS": "[]",
    "JOBLANE_CONCURRENCY": json.dumps(
        {
            "per-customer": {"key": ["customer", "/labels/customer"], "max_queued": 2},
            "latest": {"key": ["latest", "/name"], "when_full": "replace-oldest"},
        }
    ),
    "JOBLANE_NOTIFY": json.dumps(
        {
            "tenants": {
                "acme": {
                    "secret": f"secretsmanager:{NAME}/acme/notify",
                    "topics": [JOBS_TOPIC],
                    "eventbridge": True,
                },
                "other": {},
            },
            "allow_networks": ["127.0.0.0/8"],
        }
    ),
    "JOBLANE_NOTIFIES": "true",
    "JOBLANE_RETRY_S": "[10, 60]",
    "JOBLANE_ENDPOINT": "https://otlp.test/v1/traces",
    "JOBLANE_API_URL": "https://api.test",
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
                "client-platform": ["platform", "platform", "ops"],
            },
        }
    ),
}


def configure(settings: type[S]) -> S:
    """Return a function's settings, of its environment in this deployment."""
    return settings.model_validate(FUNCTION_ENVIRONMENT)


@dataclass
class Cloud:
    """The deployment."""

    clients: Clients
    jobs: JobStore
    agents: AgentStore
    output: OutputStore
    session: Callable[[], botocore.session.Session]
    """Makes another session, for a test's hooks: its clients reach the same deployment."""

    def job(self, job_id: str) -> Head:
        """Return a job that is stored."""
        head = self.jobs.get(job_id)
        assert head is not None
        return head

    def emitter(self) -> Any:
        """Give this cloud clients of a session of its own; returns that session's event emitter."""
        session = self.session()
        self.clients = OneEach(session)
        return session.get_component("event_emitter")


def cloud_of(session: Callable[[], botocore.session.Session], clients: Clients) -> Cloud:
    """The deployment by these clients, and by those of such sessions."""
    dynamodb = clients.make("dynamodb")
    return Cloud(
        clients=clients,
        jobs=JobStore(dynamodb, DESCRIPTOR.jobs_table),
        agents=AgentStore(dynamodb, DESCRIPTOR.agents_table),
        output=output_store(clients),
        session=session,
    )


def output_store(clients: Clients, clock: Callable[[], float] = time.time) -> OutputStore:
    """The output of jobs by these clients."""
    return OutputStore(
        clients.make("dynamodb"),
        DESCRIPTOR.output_table,
        lambda: clients.make("s3"),
        DESCRIPTOR.bucket,
        days=DESCRIPTOR.retention.logs_days,
        clock=clock,
    )


def new_session() -> botocore.session.Session:
    """A session with made-up credentials."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    session.set_credentials("AKIATEST", "secret", "token")
    session.set_config_variable("region", "us-east-1")
    # moto passes on what goes to an endpoint of AWS_ENDPOINT_URL, as `.local/env` sets it
    session.set_config_variable("ignore_configured_endpoint_urls", True)
    return session


@cache
def _loader() -> Loader:
    """One loader for all sessions: reading the service models takes longer than most tests."""
    return create_loader()


class OneEach(Clients):
    """Makes a client once of each configuration: making one takes longer than most calls."""

    def __init__(self, session: botocore.session.Session) -> None:
        super().__init__(session)
        self._made: dict[tuple[str, Config], Any] = {}

    def make(self, service: Any, config: Config = QUICK) -> Any:
        """Make a client, or return the one that was made."""
        made = self._made.get((service, config))
        if made is None:
            made = self._made[service, config] = super().make(service, config)
        return made


def queue_urls() -> list[str]:
    """All queues that the stacks make."""
    urls = [DESCRIPTOR.lane_url(queue, lane) for queue in QUEUES for lane in LANES]
    names = (
        *(dead_letter_name, alternate_name, notify_name, due_name),
        *(traces_name, traces_dead_name, exports_name, exports_dead_name),
    )
    return [*urls, *(PREFIX + name(NAME) for name in names)]


def objects(aws: Cloud) -> list[str]:
    """Keys of what the bucket has."""
    answer = aws.clients.make("s3").list_objects_v2(Bucket=DESCRIPTOR.bucket)
    return [entry["Key"] for entry in answer.get("Contents", [])]


def payload_store(aws: Cloud) -> PayloadStore:
    """The store of submissions that the table does not take."""
    values = ArrayValues(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    return PayloadStore(lambda: aws.clients.make("s3"), DESCRIPTOR.bucket, values)
