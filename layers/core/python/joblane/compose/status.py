"""Composes the function `status`: the API's routes that show what goes on."""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from aws_lambda_powertools.logging import Logger
from pydantic import Field, Json

import joblane
from joblane.aws.clients import Clients
from joblane.aws.environment import Environment
from joblane.aws.fleet.agents import AgentStore
from joblane.contract.principal import AnyAccess
from joblane.contract.status import DeclaredFleet, LinkView, PriceView
from joblane.deployment.limits import Limits
from joblane.http.application import Application
from joblane.http.request_jobs import RequestJobs

if TYPE_CHECKING:
    from joblane.service.files.outputs import OutputFiles
    from joblane.service.fleet.fleets import FleetReader
    from joblane.service.job.read import JobReader
    from joblane.service.why import WhyReader


class Settings(Environment):
    """The function's environment."""

    agents_table: str
    conditions_table: str
    counters_table: str
    jobs_table: str
    keys_table: str
    settings_table: str
    bucket: str
    queues: Json[dict[str, tuple[str, ...]]]
    """Tenants that may use each queue; none listed means all."""
    retired: Json[dict[str, str | None]]
    """The retired queues, each with the one that its jobs move to."""
    threads: Json[dict[str, int]]
    """What joblane.toml declares for each queue."""
    maxima: str
    """JSON: those of the fleets of each queue."""
    without_host_network: Json[frozenset[str]]
    """Queues that have fleets, none of which allows the network `host`."""
    policies: str
    """JSON: policy of each kind of condition that does not have the default one."""
    limits: Json[Limits]
    access: Json[AnyAccess]
    links: Json[tuple[LinkView, ...]] = ()
    prices: Json[dict[str, PriceView]] = Field(default_factory=dict)
    """By queue."""
    fleets: Json[tuple[DeclaredFleet, ...]] = ()


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    logger = Logger()

    @cache
    def jobs() -> "JobReader":
        from joblane.aws.job.jobs import JobStore  # few requests concern a job
        from joblane.service.job.read import JobReader

        return JobReader(JobStore(dynamodb, settings.jobs_table), clock)

    found = RequestJobs(lambda tenant, job_id: jobs().find(tenant, job_id), logger)
    app = Application(settings.access, clock, found, logger, None)

    def add_status() -> None:
        from joblane.aws.queue.counters import CounterStore
        from joblane.aws.queue.usage import UploadStore, UsageStore
        from joblane.http.status_routes import status_routes
        from joblane.service.deployment.summary import Summaries
        from joblane.service.queue.activity import ActivityReader

        summaries = Summaries(
            settings.queues,
            settings.limits,
            AgentStore(dynamodb, settings.agents_table),
            UsageStore(dynamodb, settings.counters_table),
            UploadStore(dynamodb, settings.counters_table),
            app.now_ms,
            links=settings.links,
            prices=settings.prices,
            version=joblane.__version__,
            deployment=settings.deployment,
            pool=pool,
        )
        activity = ActivityReader(
            settings.queues,
            settings.access.tenants,
            CounterStore(dynamodb, settings.counters_table),
            app.now_ms,
            logger,
            pool=pool,
        )

        @cache
        def fleets() -> "FleetReader":
            from joblane.aws.fleet.auto_scaling import AutoScalingGroups
            from joblane.aws.fleet.fleet_records import FleetRecords
            from joblane.service.fleet.fleets import FleetReader

            groups = cache(
                lambda: AutoScalingGroups(clients.make("autoscaling"), settings.deployment)
            )
            return FleetReader(
                settings.fleets,
                settings.deployment,
                groups,
                FleetRecords(dynamodb, settings.settings_table),
                logger,
                now_ms=app.now_ms,
                pool=pool,
            )

        status_routes(app, summaries, activity, fleets)

    @cache
    def make_why() -> "WhyReader":
        from joblane.aws.condition.conditions import ConditionStore
        from joblane.aws.fleet.fleet_records import FleetRecords
        from joblane.aws.job.places import JobPlaces
        from joblane.aws.key.keys import KeyStore
        from joblane.aws.queue.lanes import Lanes
        from joblane.aws.queue.moves import QueueMoveStore
        from joblane.aws.queue.settings import SettingsStore
        from joblane.condition.policies import read_policies
        from joblane.queue.maxima import read_maxima
        from joblane.service.queue.rules import QueueRules
        from joblane.service.why import WhyReader

        return WhyReader(
            jobs().jobs,
            JobPlaces(dynamodb, settings.jobs_table),
            AgentStore(dynamodb, settings.agents_table),
            SettingsStore(dynamodb, settings.settings_table),
            QueueMoveStore(dynamodb, settings.settings_table),
            FleetRecords(dynamodb, settings.settings_table),
            ConditionStore(dynamodb, settings.conditions_table),
            KeyStore(dynamodb, settings.keys_table),
            Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment),
            logger,
            fleets=settings.fleets,
            deployment=settings.deployment,
            rules=QueueRules(
                settings.queues,
                settings.retired,
                read_maxima(settings.maxima),
                settings.without_host_network,
            ),
            threads=settings.threads,
            limits=settings.limits,
            policy_of=read_policies(settings.policies),
            now_ms=app.now_ms,
            pool=pool,
        )

    def add_why() -> None:
        from joblane.http.why_routes import why_routes

        why_routes(app, make_why)

    @cache
    def outputs() -> "OutputFiles":
        from joblane.aws.files.output_store import OutputFileStore
        from joblane.aws.files.signed_uploads import SIGNING
        from joblane.service.files.outputs import OutputFiles

        s3 = cache(lambda: clients.make("s3", SIGNING))
        return OutputFiles(OutputFileStore(s3, settings.bucket))

    def add_outputs() -> None:
        from joblane.http.output_file_routes import output_file_routes

        output_file_routes(app, outputs)

    app.parts.add(add_status, "/v1/fleets", "/v1/queues", "/v1/summary")
    app.parts.add(add_why, "/v1/jobs/{job_id}/why")
    app.parts.add(add_outputs, "/v1/jobs/{job_id}/outputs")
    return app
