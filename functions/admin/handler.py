"""Lambda function behind the API's routes for operators: agents, queues, conditions, dead jobs."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

import joblane
from joblane.aws.audit import AuditStore
from joblane.aws.clients import Clients
from joblane.aws.condition.directory import AppStore, Directory
from joblane.aws.files.signed_uploads import SIGNING
from joblane.aws.files.store import FileStore
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.facts import FactStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.waiting import WaitingJobs
from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.aws.key.keys import KeyStore
from joblane.aws.metrics import Metrics
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.message_ages import MessageAges
from joblane.aws.queue.moves import QueueMoveStore
from joblane.aws.queue.settings import SettingsStore
from joblane.aws.queue.usage import UploadStore, UsageStore
from joblane.aws.typed.bundle_store import BundleStore
from joblane.aws.typed.types import TypeStore
from joblane.condition.policies import read_policies
from joblane.contract.deployment_answers import Login
from joblane.contract.operator_routes import OPERATOR_ROUTES
from joblane.contract.principal import AnyAccess
from joblane.deployment.limits import Limits
from joblane.deployment.names import LANES, Architecture
from joblane.http.agent_routes import agent_routes
from joblane.http.application import Application
from joblane.http.audit_routes import trail_route
from joblane.http.condition_routes import condition_routes
from joblane.http.dead_letter_routes import (
    bulk_routes,
    dead_letter_routes,
    selected_dead_routes,
)
from joblane.http.deployment_routes import deployment_routes
from joblane.http.file_routes import upload_route
from joblane.http.key_routes import key_routes
from joblane.http.queue_routes import queue_routes
from joblane.http.request_jobs import RequestJobs
from joblane.http.type_routes import type_routes
from joblane.key.policy import KeyTemplate
from joblane.service.audit.affected import AffectedTenants
from joblane.service.audit.trail import Trail
from joblane.service.condition.conditions import Conditions
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.files.upload_meter import UploadMeter
from joblane.service.files.uploads import FileUploads
from joblane.service.fleet.agents import Agents
from joblane.service.job.bulk import BulkOperations
from joblane.service.job.operations import Operations
from joblane.service.job.read import JobReader
from joblane.service.job.search import JobSearch
from joblane.service.job.wake_up import send_wake_up
from joblane.service.key.admission import KeyAdmission
from joblane.service.key.clear import KeyClear
from joblane.service.key.keys import KeyReader
from joblane.service.key.refusals import KeyRefusals
from joblane.service.key.release import KeyRelease
from joblane.service.key.rules import KeyRules
from joblane.service.queue.oldest import OldestJobs
from joblane.service.queue.queues import Queues, QueueStatistics
from joblane.service.queue.thread_shares import ThreadShares
from joblane.service.typed.schemas import Schema
from joblane.service.typed.types import Types
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from joblane.service.job.present_code import PresentCode
    from joblane.service.job.selected_dead import SelectedDead
    from joblane.service.typed.admission import TypedAdmission


class Settings(Environment):
    """The function's environment."""

    audit_table: str
    agents_table: str
    jobs_table: str
    conditions_table: str
    policies: str
    """JSON: policy of each kind of condition that does not have the default one."""
    queues: Json[dict[str, tuple[str, ...]]]
    """Tenants that may use each queue; none listed means all."""
    retired: Json[dict[str, str | None]]
    """The retired queues, each with the one that its jobs move to."""
    maxima: str
    """JSON: the most that a job of each queue may ask for, by fleet. Read when a typed job is
    started again, as the next two."""
    fleet_queues: str
    """JSON: the queues that each fleet serves."""
    without_host_network: str
    """JSON: queues that have fleets, none of which allows the network `host`."""
    settings_table: str
    counters_table: str
    threads: Json[dict[str, int]]
    """What joblane.toml declares for each queue."""
    deadlines: Json[dict[str, float]]
    """Default deadlines of queues that have one, in seconds."""
    keys_table: str
    concurrency: Json[dict[str, KeyTemplate]]
    """The policies of joblane.toml."""
    types_table: str
    bucket: str
    architectures: Json[tuple[Architecture, ...]]
    """Those of the fleets."""
    access: Json[AnyAccess]
    login: Json[Login]
    limits: Json[Limits]
    """Those that are checked here: `jobs_waiting` and those of a day."""
    retention: Json[Retention]
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    trail = Trail(AuditStore(dynamodb, settings.audit_table), settings.retention.audit_days, clock)
    keys = KeyStore(dynamodb, settings.keys_table)
    type_store = TypeStore(dynamodb, settings.types_table)
    jobs = KeyedJobs(dynamodb, settings.jobs_table, keys)
    agents = AgentStore(dynamodb, settings.agents_table)
    affected = AffectedTenants(settings.access.tenants, settings.queues, agents, jobs)
    reader, logger = JobReader(jobs, clock), Logger()
    found = RequestJobs(reader.find, logger)
    app = Application(OPERATOR_ROUTES, settings.access, logger, trail, clock, found, affected)
    trail_route(app, trail)
    openapi = Path(joblane.__file__).with_name("contract") / "openapi.json"
    deployment_routes(app, settings.login, joblane.__version__, openapi)
    s3 = cache(lambda: clients.make("s3", SIGNING))
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    releases = KeyRelease(keys, jobs, lanes, logger, clock)
    typed = cache(lambda: _make_typed(type_store))
    rules = KeyRules(settings.concurrency, lambda *version: typed().key(*version))
    keyed = KeyAdmission(
        jobs,
        rules,
        releases,
        partial(send_wake_up, lanes),
        settings.retention,
        KeyRefusals(logger, Metrics(settings.metrics), settings.deployment),
    )
    payloads = PayloadStore(s3, settings.bucket, ArrayValues(dynamodb, settings.jobs_table))
    present = cache(lambda: _make_present_code(settings, typed, payloads, rules, logger))
    operations = Operations(jobs, lanes, settings.retention, keyed, present=present)
    facts = FactStore(dynamodb, settings.agents_table)
    agent_routes(app, Agents(agents, facts, jobs, lanes, app.now_ms))
    usage = UsageStore(dynamodb, settings.counters_table)
    limits = LimitCheck(usage, settings.limits, app.now_ms, app.logger)
    dead_letter_routes(app, reader, operations, limits)
    search = JobSearch(jobs, agents, clock, pool)
    selected_dead_routes(app, limits, lambda: _make_selected_dead(search, operations, pool))
    bulk_routes(app, BulkOperations(jobs, lanes, operations, limits, settings.queues, type_store))
    names = [lanes.name(queue, lane) for queue in settings.queues for lane in LANES]
    counters = CounterStore(dynamodb, settings.counters_table)
    ages = MessageAges(lambda: clients.make("cloudwatch"), names, clock)
    oldest = OldestJobs(WaitingJobs(dynamodb, settings.jobs_table))
    queue_settings = SettingsStore(dynamodb, settings.settings_table)
    queues = Queues(
        settings.queues,
        settings.access.tenants,
        settings.threads,
        settings.deadlines,
        settings.retired,
        queue_settings,
        QueueMoveStore(dynamodb, settings.settings_table),
        ThreadShares(queue_settings, agents),
        QueueStatistics(lanes, counters, usage, ages, oldest, app.logger, pool=pool),
        app.now_ms,
    )
    queue_routes(app, queues)
    conditions = Conditions(
        Directory(dynamodb, settings.conditions_table),
        AppStore(dynamodb, settings.conditions_table),
        read_policies(settings.policies),
        clock,
    )
    condition_routes(app, conditions)
    meter = UploadMeter(UploadStore(dynamodb, settings.counters_table), settings.limits, app.now_ms)
    types = Types(
        type_store,
        BundleStore(s3, settings.bucket),
        meter,
        keys,
        usage,
        oldest,
        _compile,
        queues=settings.queues,
        retired=settings.retired,
        architectures=settings.architectures,
        now_ms=app.now_ms,
    )
    type_routes(app, types)

    store, days = FileStore(s3, settings.bucket), settings.retention.files_days
    upload_route(app, FileUploads(store, meter, days, clock, pool=pool))
    clear = KeyClear(jobs, operations, releases)
    key_routes(app, KeyReader(keys, jobs, agents, app.now_ms), clear)
    return app


def _compile(schema: Mapping[str, Any]) -> Schema:
    from joblane.http.json_schema import JsonSchema

    return JsonSchema(schema)


def _make_typed(store: TypeStore) -> "TypedAdmission":
    # Few requests start typed jobs again.
    from joblane.service.typed.admission import TypedAdmission
    from joblane.service.typed.validation_time import ValidationTime

    return TypedAdmission(store, _compile, ValidationTime(time.monotonic))


def _make_present_code(
    settings: Settings,
    typed: "Callable[[], TypedAdmission]",
    payloads: PayloadStore,
    rules: KeyRules,
    log: Logger,
) -> "PresentCode":
    # Few requests start typed jobs again.
    from joblane.queue.maxima import read_maxima
    from joblane.queue.routing import DefaultQueues
    from joblane.service.job.admit import Admission
    from joblane.service.job.present_code import PresentCode
    from joblane.service.queue.router import QueueRouter
    from joblane.service.queue.rules import QueueRules

    queues = QueueRules(
        settings.queues,
        settings.retired,
        read_maxima(settings.maxima),
        json.loads(settings.without_host_network),
    )
    admission = Admission(
        settings.deployment,
        QueueRouter(queues, DefaultQueues(""), (), log),  # the queues of jobs were chosen before
        json.loads(settings.fleet_queues),
        settings.deadlines,
        typed,
    )
    return PresentCode(lambda: admission, payloads, rules)


def _make_selected_dead(
    search: JobSearch, operations: Operations, pool: Callable[[int], Executor]
) -> "SelectedDead":
    # Few requests change many jobs.
    from joblane.service.job.selected_dead import SelectedDead

    return SelectedDead(search, operations, pool=pool)


@once
def _application() -> Application:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
