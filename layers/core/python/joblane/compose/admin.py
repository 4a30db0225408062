"""Composes the function `admin`: the API's routes of operators and types."""

import json
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import Json

import joblane
from joblane.aws.clients import Clients
from joblane.compose.api_function import ApiFunction, ApiSettings
from joblane.contract.deployment_answers import Login
from joblane.deployment.names import LANES, Architecture
from joblane.http.application import Application

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from joblane.service.files.upload_meter import UploadMeter
    from joblane.service.job.operations import Operations
    from joblane.service.job.present_code import PresentCode
    from joblane.service.job.selected_dead import SelectedDead
    from joblane.service.queue.oldest import OldestJobs
    from joblane.service.typed.schemas import Schema


class Settings(ApiSettings):
    """The function's environment."""

    conditions_table: str
    policies: str
    """JSON: policy of each kind of condition that does not have the default one."""
    maxima: str
    """JSON: the most that a job of each queue may ask for, by fleet. Read when a typed job is
    started again, as the next two."""
    fleet_queues: str
    """JSON: the queues that each fleet serves."""
    without_host_network: str
    """JSON: queues that have fleets, none of which allows the network `host`."""
    threads: Json[dict[str, int]]
    """What joblane.toml declares for each queue."""
    architectures: Json[tuple[Architecture, ...]]
    """Those of the fleets."""
    login: Json[Login]


class AdminFunction(ApiFunction[Settings]):
    """The parts of this function, and what only they use."""

    def add_parts(self) -> Application:
        """Add all parts; each is loaded by the first request for it."""
        add = self.app.parts.add
        add(self.add_agents, "/v1/agents")
        add(self.add_bulk, "POST /v1/queues")
        add(self.add_conditions, "/v1/conditions")
        add(self.add_dead_letters, "/v1/dlq")
        add(self.add_deployment, "/v1/health", "/v1/login", "/v1/openapi.json")
        add(self.add_keys, "/v1/keys")
        add(self.add_queues, "/v1/queues")
        add(self.add_trail, "/v1/audit")
        add(self.add_types, "/v1/bundles", "/v1/types")
        add(self.add_upload, "/v1/files")
        return self.app

    def add_agents(self) -> None:
        """Bind the routes of agents."""
        from joblane.aws.fleet.facts import FactStore
        from joblane.http.agent_routes import agent_routes
        from joblane.service.fleet.agents import Agents

        facts = FactStore(self.dynamodb, self.settings.agents_table)
        agents = Agents(self.agents, facts, self.jobs, self.lanes, self.app.now_ms)
        agent_routes(self.app, agents)

    def add_bulk(self) -> None:
        """Bind the routes that change all jobs of a queue."""
        from joblane.http.bulk_routes import bulk_routes
        from joblane.service.job.bulk import BulkOperations

        bulk = BulkOperations(
            self.jobs, self.lanes, self.operations, self.limits, self.settings.queues, self.types
        )
        bulk_routes(self.app, bulk)

    def add_conditions(self) -> None:
        """Bind the routes of conditions."""
        from joblane.aws.condition.directory import AppStore, Directory
        from joblane.condition.policies import read_policies
        from joblane.http.condition_routes import condition_routes
        from joblane.service.condition.conditions import Conditions

        table = self.settings.conditions_table
        conditions = Conditions(
            Directory(self.dynamodb, table),
            AppStore(self.dynamodb, table),
            read_policies(self.settings.policies),
            self.clock,
        )
        condition_routes(self.app, conditions)

    def add_dead_letters(self) -> None:
        """Bind the routes of dead jobs."""
        from joblane.http.dead_letter_routes import dead_letter_routes, selected_dead_routes

        dead_letter_routes(self.app, self.reader, self.operations, self.limits)
        selected_dead_routes(self.app, self.limits, self.make_selected_dead)

    def add_deployment(self) -> None:
        """Bind the routes of the deployment itself."""
        from pathlib import Path

        from joblane.http.deployment_routes import deployment_routes

        openapi = Path(joblane.__file__).with_name("contract") / "openapi.json"
        deployment_routes(self.app, self.settings.login, joblane.__version__, openapi)

    def add_keys(self) -> None:
        """Bind the routes of keys."""
        from joblane.http.key_routes import key_routes
        from joblane.service.key.clear import KeyClear
        from joblane.service.key.keys import KeyReader

        reader = KeyReader(self.jobs.keys, self.jobs, self.agents, self.app.now_ms)
        key_routes(self.app, reader, KeyClear(self.jobs, self.operations, self.releases))

    def add_queues(self) -> None:
        """Bind the routes that show queues, and read and change their settings."""
        from joblane.aws.queue.counters import CounterStore
        from joblane.aws.queue.message_ages import MessageAges
        from joblane.aws.queue.moves import QueueMoveStore
        from joblane.aws.queue.settings import SettingsStore
        from joblane.http.queue_routes import queue_routes
        from joblane.service.queue.queues import Queues, QueueStatistics
        from joblane.service.queue.thread_shares import ThreadShares

        settings, lanes = self.settings, self.lanes
        names = [lanes.name(queue, lane) for queue in settings.queues for lane in LANES]
        counters = CounterStore(self.dynamodb, settings.counters_table)
        ages = MessageAges(lambda: self.clients.make("cloudwatch"), names, self.clock)
        queue_settings = SettingsStore(self.dynamodb, settings.settings_table)
        queues = Queues(
            settings.queues,
            settings.access.tenants,
            settings.threads,
            settings.deadlines,
            settings.retired,
            queue_settings,
            QueueMoveStore(self.dynamodb, settings.settings_table),
            ThreadShares(queue_settings, self.agents),
            QueueStatistics(
                lanes, counters, self.usage, ages, self.oldest, self.app.logger, pool=self.pool
            ),
            self.app.now_ms,
        )
        queue_routes(self.app, queues)

    def add_trail(self) -> None:
        """Bind the route of a tenant's audit trail."""
        from joblane.http.audit_routes import trail_route

        trail_route(self.app, self.trail)

    def add_types(self) -> None:
        """Bind the routes of job types and their bundles."""
        from joblane.aws.typed.bundle_store import BundleStore
        from joblane.http.type_routes import type_routes
        from joblane.service.typed.types import Types

        settings = self.settings
        types = Types(
            self.types,
            BundleStore(self.make_s3, settings.bucket),
            self.meter,
            self.jobs.keys,
            self.usage,
            self.oldest,
            _compile,
            queues=settings.queues,
            retired=settings.retired,
            architectures=settings.architectures,
            now_ms=self.app.now_ms,
        )
        type_routes(self.app, types)

    def add_upload(self) -> None:
        """Bind the route that prepares uploads of input files."""
        from joblane.aws.files.store import FileStore
        from joblane.http.upload_route import upload_route
        from joblane.service.files.uploads import FileUploads

        store, days = FileStore(self.make_s3, self.settings.bucket), self.settings.retention
        uploads = FileUploads(store, self.meter, days.files_days, self.clock, pool=self.pool)
        upload_route(self.app, uploads)

    @cached_property
    def oldest(self) -> "OldestJobs":
        """The jobs that have waited longest."""
        from joblane.aws.job.waiting import WaitingJobs
        from joblane.service.queue.oldest import OldestJobs

        return OldestJobs(WaitingJobs(self.dynamodb, self.settings.jobs_table))

    @cached_property
    def s3(self) -> "S3Client":
        """The client of S3, which signs uploads."""
        from joblane.aws.files.signed_uploads import SIGNING

        return self.clients.make("s3", SIGNING)

    @cached_property
    def meter(self) -> "UploadMeter":
        """Checks limits of tenants on uploads."""
        from joblane.aws.queue.usage import UploadStore
        from joblane.service.files.upload_meter import UploadMeter

        store = UploadStore(self.dynamodb, self.settings.counters_table)
        return UploadMeter(store, self.settings.limits, self.app.now_ms)

    @cached_property
    def operations(self) -> "Operations":
        """What operators do with a job."""
        from joblane.service.job.operations import Operations

        retention = self.settings.retention
        return Operations(
            self.jobs, self.lanes, retention, self.keyed, present=lambda: self.present
        )

    @cached_property
    def present(self) -> "PresentCode":
        """Gives typed jobs that start again the present version of their type."""
        from joblane.queue.maxima import read_maxima
        from joblane.queue.routing import DefaultQueues
        from joblane.service.job.admit import Admission
        from joblane.service.job.present_code import PresentCode
        from joblane.service.queue.router import QueueRouter
        from joblane.service.queue.rules import QueueRules

        settings = self.settings
        queues = QueueRules(
            settings.queues,
            settings.retired,
            read_maxima(settings.maxima),
            json.loads(settings.without_host_network),
        )
        admission = Admission(
            settings.deployment,
            # the queues of jobs were chosen before
            QueueRouter(queues, DefaultQueues(""), (), self.app.logger),
            json.loads(settings.fleet_queues),
            settings.deadlines,
            lambda: self.typed,
        )
        return PresentCode(lambda: admission, self.payloads, self.rules)

    def make_selected_dead(self) -> "SelectedDead":
        """Make what changes many dead jobs."""
        from joblane.service.job.selected_dead import SelectedDead

        return SelectedDead(self.search, self.operations, pool=self.pool)

    def find_affected(self, action: str, target: Mapping[str, str]) -> Collection[str]:
        """Return the tenants that an action of the role platform affects."""
        from joblane.service.audit.affected import AffectedTenants

        tenants, queues = self.settings.access.tenants, self.settings.queues
        return AffectedTenants(tenants, queues, self.agents, self.jobs)(action, target)


def _compile(schema: Mapping[str, Any]) -> "Schema":
    from joblane.http.json_schema import JsonSchema

    return JsonSchema(schema)


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    return AdminFunction(settings, clients, clock, pool).add_parts()
