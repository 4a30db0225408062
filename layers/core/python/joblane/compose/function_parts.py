"""What several functions are made of: their settings, stores and services on jobs.

Each is made when it is first asked for, with imports of its own: a cold start pays for what its
request needs (decision 1830).
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.deployment.limits import Limits
from joblane.key.policy import KeyTemplate
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client

    from joblane.aws.fleet.agents import AgentStore
    from joblane.aws.job.payload_store import PayloadStore
    from joblane.aws.key.keyed_jobs import KeyedJobs
    from joblane.aws.queue.lanes import Lanes
    from joblane.aws.queue.usage import UsageStore
    from joblane.aws.typed.types import TypeStore
    from joblane.service.deployment.limit_check import LimitCheck
    from joblane.service.job.search import JobSearch
    from joblane.service.key.admission import KeyAdmission
    from joblane.service.key.release import KeyRelease
    from joblane.service.key.rules import KeyRules
    from joblane.service.typed.admission import TypedAdmission


class PartsSettings(Environment):
    """What the environment of each of these functions has."""

    agents_table: str
    jobs_table: str
    settings_table: str
    counters_table: str
    keys_table: str
    types_table: str
    bucket: str
    queues: Json[dict[str, tuple[str, ...]]]
    """Tenants that may use each queue; none listed means all."""
    retired: Json[dict[str, str | None]]
    """The retired queues, each with the one that its jobs move to."""
    deadlines: Json[dict[str, float]]
    """Default deadlines of queues that have one, in seconds."""
    concurrency: Json[dict[str, KeyTemplate]]
    """The policies of joblane.toml."""
    limits: Json[Limits]
    """Those that are checked here: `jobs_waiting`, those of a day, and `input_mb_per_job`."""
    retention: Json[Retention]
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


Settings = TypeVar("Settings", bound=PartsSettings)


@dataclass
class FunctionParts(Generic[Settings]):
    """What these functions have in common."""

    settings: Settings
    clients: Clients
    clock: Callable[[], float]
    """Returns Unix seconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    _: KW_ONLY
    monotonic: Callable[[], float] = time.monotonic

    @cached_property
    def logger(self) -> Logger:
        """The function's log."""
        return Logger()

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self.clock() * 1000)

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        """The client of DynamoDB, which nearly every request needs."""
        return self.clients.make("dynamodb")

    @cached_property
    def s3(self) -> "S3Client":
        """The client of S3; most requests do not need it."""
        return self.clients.make("s3")

    def make_s3(self) -> "S3Client":
        """Return the client of S3, made at the first call."""
        return self.s3

    @cached_property
    def agents(self) -> "AgentStore":
        """The agents table."""
        from joblane.aws.fleet.agents import AgentStore

        return AgentStore(self.dynamodb, self.settings.agents_table)

    @cached_property
    def jobs(self) -> "KeyedJobs":
        """The jobs table, with the one of keys."""
        from joblane.aws.key.keyed_jobs import KeyedJobs
        from joblane.aws.key.keys import KeyStore

        keys = KeyStore(self.dynamodb, self.settings.keys_table)
        return KeyedJobs(self.dynamodb, self.settings.jobs_table, keys)

    @cached_property
    def lanes(self) -> "Lanes":
        """The lanes of the queues."""
        from joblane.aws.queue.lanes import Lanes

        sqs = self.clients.make("sqs")
        return Lanes(sqs, self.settings.queue_url_prefix, self.settings.deployment)

    @cached_property
    def types(self) -> "TypeStore":
        """The types table."""
        from joblane.aws.typed.types import TypeStore

        return TypeStore(self.dynamodb, self.settings.types_table)

    @cached_property
    def payloads(self) -> "PayloadStore":
        """Submissions that are too large for the jobs table."""
        from joblane.aws.job.array_values import ArrayValues
        from joblane.aws.job.payload_store import PayloadStore

        values = ArrayValues(self.dynamodb, self.settings.jobs_table)
        return PayloadStore(self.make_s3, self.settings.bucket, values)

    @cached_property
    def usage(self) -> "UsageStore":
        """What tenants use, in the counters table."""
        from joblane.aws.queue.usage import UsageStore

        return UsageStore(self.dynamodb, self.settings.counters_table)

    @cached_property
    def search(self) -> "JobSearch":
        """Finds jobs by filters."""
        from joblane.service.job.search import JobSearch

        return JobSearch(self.jobs, self.agents, self.clock, self.pool)

    @cached_property
    def limits(self) -> "LimitCheck":
        """Checks the limits of tenants on jobs."""
        from joblane.service.deployment.limit_check import LimitCheck

        return LimitCheck(self.usage, self.settings.limits, self.now_ms, self.logger)

    @cached_property
    def releases(self) -> "KeyRelease":
        """Gives free slots of keys to jobs that wait for one."""
        from joblane.service.key.release import KeyRelease

        jobs = self.jobs
        return KeyRelease(jobs.keys, jobs, self.lanes, self.logger, self.clock)

    @cached_property
    def rules(self) -> "KeyRules":
        """The limits of keys: those of joblane.toml and of types."""
        from joblane.service.key.rules import KeyRules

        # few keys are those of a type
        return KeyRules(self.settings.concurrency, lambda *version: self.typed.key(*version))  # noqa: PLW0108

    @cached_property
    def keyed(self) -> "KeyAdmission":
        """Admits jobs with a key."""
        from joblane.aws.metrics import Metrics
        from joblane.service.job.wake_up import send_wake_up
        from joblane.service.key.admission import KeyAdmission
        from joblane.service.key.refusals import KeyRefusals

        settings = self.settings
        return KeyAdmission(
            self.jobs,
            self.rules,
            self.releases,
            partial(send_wake_up, self.lanes),
            settings.retention,
            KeyRefusals(self.logger, Metrics(settings.metrics), settings.deployment),
        )

    @cached_property
    def typed(self) -> "TypedAdmission":
        """Admits typed jobs; commands need none of it (`joblane.http.json_schema`)."""
        from joblane.http.json_schema import JsonSchema
        from joblane.service.typed.admission import TypedAdmission
        from joblane.service.typed.validation_time import ValidationTime

        return TypedAdmission(self.types, JsonSchema, ValidationTime(self.monotonic))
