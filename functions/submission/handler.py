"""Lambda function behind the API's routes of jobs."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.audit import AuditStore
from joblane.aws.clients import Clients
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.idempotency import IdempotencyStore
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.aws.key.keys import KeyStore
from joblane.aws.metrics import Metrics
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.settings import SettingsStore
from joblane.aws.queue.usage import UsageStore
from joblane.contract.job_routes import JOB_ROUTES
from joblane.contract.principal import AnyAccess
from joblane.deployment.limits import Limits
from joblane.http.application import Application
from joblane.http.audit_routes import job_trail_route
from joblane.http.edit_route import edit_route
from joblane.http.group_routes import group_routes
from joblane.http.job_routes import job_operation_routes, job_routes, selected_jobs_routes
from joblane.http.log_routes import log_route
from joblane.http.request_jobs import RequestJobs
from joblane.http.resubmission_routes import resubmission_routes
from joblane.key.policy import KeyTemplate
from joblane.queue.maxima import Maxima
from joblane.queue.routing import DefaultQueues, QueueFilter
from joblane.service.audit.trail import Trail
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.fleet.serving_check import ServingCheck
from joblane.service.job.admit import Admission
from joblane.service.job.delete import JobDeleter
from joblane.service.job.operations import Operations
from joblane.service.job.read import JobReader, JobViews
from joblane.service.job.search import JobSearch
from joblane.service.job.submit import Submitter
from joblane.service.job.wake_up import send_wake_up
from joblane.service.key.admission import KeyAdmission
from joblane.service.key.refusals import KeyRefusals
from joblane.service.key.release import KeyRelease
from joblane.service.key.rules import KeyRules
from joblane.service.output.follow import FollowSender
from joblane.service.output.read import JobOutput, WaitWindow
from joblane.service.queue.router import QueueRouter
from joblane.service.queue.rules import QueueRules
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient
    from mypy_boto3_s3.client import S3Client

    from joblane.aws.files.output_store import OutputFileStore
    from joblane.job.head import Head
    from joblane.notify.rules import NotifyRules
    from joblane.service.files.input_check import InputCheck
    from joblane.service.group.groups import Groups
    from joblane.service.job.delete_selected import SelectedDeletion
    from joblane.service.job.edit import Edits
    from joblane.service.job.present_code import PresentCode
    from joblane.service.job.resubmit import Resubmitter
    from joblane.service.job.selected_jobs import SelectedJobs
    from joblane.service.target.targets import Targets
    from joblane.service.typed.admission import TypedAdmission


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    agents_table: str
    audit_table: str
    output_table: str
    types_table: str
    bucket: str
    queues: Json[dict[str, tuple[str, ...]]]
    """Tenants that may submit to each queue; none listed means all."""
    retired: Json[dict[str, str | None]]
    """The retired queues, each with the one that its jobs move to."""
    maxima: Json[dict[str, tuple[Maxima, ...]]]
    """The most that a job of each queue may ask for, by fleet."""
    fleet_queues: Json[dict[str, tuple[str, ...]]]
    """The queues that each fleet serves."""
    without_host_network: Json[frozenset[str]]
    """Queues that have fleets, none of which allows the network `host`."""
    default_queue: str
    default_queues: Json[dict[str, str]]
    """Those of tenants that have one of their own."""
    deadlines: Json[dict[str, float]]
    """Default deadlines of queues, in seconds."""
    filters: Json[tuple[tuple[str, int, str], ...]]
    """Those of queues, by falling order: the members of `QueueFilter`."""
    settings_table: str
    counters_table: str
    limits: Json[Limits]
    """Those that are checked here: `jobs_waiting`, those of a day, and `input_mb_per_job`."""
    keys_table: str
    concurrency: Json[dict[str, KeyTemplate]]
    """The policies of joblane.toml."""
    notify: str
    """JSON of `NotifyRules`, read when needed; `{}` if no tenant may ask for any."""
    access: Json[AnyAccess]
    retention: Json[Retention]
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
    random_bits: Callable[[int], int] = secrets.randbits,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds.

    The client of S3 is made when first used: most requests do not need it.
    """
    dynamodb = clients.make("dynamodb")
    trail = Trail(AuditStore(dynamodb, settings.audit_table), settings.retention.audit_days, clock)
    jobs = KeyedJobs(dynamodb, settings.jobs_table, KeyStore(dynamodb, settings.keys_table))
    reader, logger = JobReader(jobs, clock), Logger()
    app = Application(
        JOB_ROUTES, settings.access, logger, trail, clock, RequestJobs(reader.find, logger)
    )
    keys = IdempotencyStore(dynamodb, settings.jobs_table)
    s3 = cache(lambda: clients.make("s3"))
    payloads = PayloadStore(s3, settings.bucket, ArrayValues(dynamodb, settings.jobs_table))
    results = ResultStore(s3, settings.bucket)
    store = OutputStore(
        dynamodb,
        settings.output_table,
        s3,
        settings.bucket,
        days=settings.retention.logs_days,
        clock=clock,
    )
    agents = AgentStore(dynamodb, settings.agents_table)
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    typed = cache(lambda: _make_typed(dynamodb, settings.types_table, monotonic))
    filters = tuple(QueueFilter(*each) for each in settings.filters)
    router = QueueRouter(_queue_rules(settings), _default_queues(settings), filters, logger)
    notify = cache(lambda: _notify_rules(settings.notify)) if settings.notify != "{}" else None
    outputs = cache(lambda: _outputs(settings, s3))
    admission = Admission(
        settings.deployment,
        router,
        settings.fleet_queues,
        settings.deadlines,
        typed,
        cache(lambda: _inputs(settings, s3, pool)),
        notify,
    )
    rules = KeyRules(settings.concurrency, lambda *version: typed().key(*version))
    releases = KeyRelease(jobs.keys, jobs, lanes, logger, clock)
    keyed = KeyAdmission(
        jobs,
        rules,
        releases,
        partial(send_wake_up, lanes),
        settings.retention,
        KeyRefusals(logger, Metrics(settings.metrics), settings.deployment),
    )
    usage = UsageStore(dynamodb, settings.counters_table)
    limits = LimitCheck(usage, settings.limits, app.now_ms, app.logger)

    @cache
    def targets() -> "Targets":
        # few jobs have a target, and the modules would be part of every cold start
        from joblane.aws.job.groups import GroupStore
        from joblane.service.group.expansion import Expansion
        from joblane.service.group.members import Members
        from joblane.service.target.targets import Targets

        groups = GroupStore(dynamodb, settings.jobs_table)
        members = Members(groups, lanes, settings.retention, pool=pool)
        expansion = Expansion(groups, members, settings.retention, app.now_ms)
        return Targets(agents, expansion, random_bits, pool=pool)

    queue_settings = SettingsStore(dynamodb, settings.settings_table)
    submitter = Submitter(
        jobs,
        payloads,
        lanes,
        keys,
        admission=admission,
        keyed=keyed,
        limits=limits,
        serving=ServingCheck(
            queue_settings, agents, app.now_ms, app.logger, fleets=settings.fleet_queues, pool=pool
        ),
        targets=targets,
        now_ms=app.now_ms,
        pool=pool,
        random_bits=random_bits,
    )
    views = JobViews(
        payloads,
        results,
        queue_settings,
        agents,
        settings.queues,
        clock,
    )
    search = JobSearch(jobs, agents, clock, pool)
    job_routes(app, submitter, search, views)
    deleter = JobDeleter(jobs, payloads, results, store, outputs, keys, trail, clock)
    present = cache(lambda: _make_present_code(admission, payloads, rules))
    operations = Operations(
        jobs, lanes, settings.retention, keyed, lambda: groups().restart, present
    )
    groups = cache(lambda: _groups(app, operations, deleter, (dynamodb, settings.jobs_table), pool))
    job_operation_routes(app, limits, operations, deleter, groups)
    resubmission_routes(app, lambda: _make_resubmitter(submitter, search, pool))
    edit_route(
        app, submitter.serving, lambda: _edits(jobs, router.rules, operations, targets, typed)
    )
    group_routes(app, groups, limits)
    selected_jobs_routes(
        app,
        limits,
        lambda: _make_selected(search, operations, groups, reader.find, pool),
        lambda: _make_selected_deletion(search, deleter, groups, reader.find, pool),
    )
    window = WaitWindow(random_bits(32) / 2**32)
    follow = FollowSender(lanes, clock, app.logger, sent={})
    log_route(app, JobOutput(jobs, store, clock, app.logger, window.left_s, follow.note_end))
    job_trail_route(app, trail)
    return app


def _default_queues(settings: Settings) -> DefaultQueues:
    return DefaultQueues(settings.default_queue, settings.default_queues)


def _queue_rules(settings: Settings) -> QueueRules:
    return QueueRules(
        settings.queues, settings.retired, settings.maxima, settings.without_host_network
    )


def _make_typed(
    dynamodb: "DynamoDBClient", table: str, monotonic: Callable[[], float]
) -> "TypedAdmission":
    # Commands need none of them (see joblane.http.json_schema).
    from joblane.aws.typed.types import TypeStore
    from joblane.http.json_schema import JsonSchema
    from joblane.service.typed.admission import TypedAdmission
    from joblane.service.typed.validation_time import ValidationTime

    return TypedAdmission(TypeStore(dynamodb, table), JsonSchema, ValidationTime(monotonic))


def _notify_rules(text: str) -> "NotifyRules":
    # Few deployments notify anybody.
    from joblane.notify.rules import NotifyRules

    return NotifyRules.model_validate_json(text)


def _inputs(
    settings: Settings, s3: "Callable[[], S3Client]", pool: Callable[[int], Executor]
) -> "InputCheck":
    # Few jobs have input files.
    from joblane.aws.files.store import FileStore
    from joblane.service.files.input_check import InputCheck

    files = FileStore(s3, settings.bucket)
    return InputCheck(files, settings.limits, settings.retention.files_days, pool=pool)


def _outputs(settings: Settings, s3: "Callable[[], S3Client]") -> "OutputFileStore":
    # Few jobs have output files.
    from joblane.aws.files.output_store import OutputFileStore

    return OutputFileStore(s3, settings.bucket)


def _make_present_code(
    admission: Admission, payloads: PayloadStore, rules: KeyRules
) -> "PresentCode":
    # Few requests start typed jobs again.
    from joblane.service.job.present_code import PresentCode

    return PresentCode(lambda: admission, payloads, rules)


def _edits(
    jobs: KeyedJobs,
    rules: QueueRules,
    operations: Operations,
    targets: "Callable[[], Targets]",
    types: "Callable[[], TypedAdmission]",
) -> "Edits":
    # Few jobs are edited.
    from joblane.service.job.edit import Edits

    return Edits(jobs, rules, operations, targets, types)


def _make_selected(
    search: JobSearch,
    operations: Operations,
    groups: "Callable[[], Groups]",
    find: Callable[[str, str], "Head | None"],
    pool: Callable[[int], Executor],
) -> "SelectedJobs":
    # Few requests change many jobs.
    from joblane.service.job.selected_jobs import SelectedJobs

    return SelectedJobs(search, operations, groups, find, pool=pool)


def _make_resubmitter(
    submitter: Submitter, search: JobSearch, pool: Callable[[int], Executor]
) -> "Resubmitter":
    # Few requests submit jobs again.
    from joblane.service.job.resubmit import Resubmitter

    return Resubmitter(submitter, search, pool=pool)


def _make_selected_deletion(
    search: JobSearch,
    deleter: JobDeleter,
    groups: "Callable[[], Groups]",
    find: Callable[[str, str], "Head | None"],
    pool: Callable[[int], Executor],
) -> "SelectedDeletion":
    # Few requests delete many jobs.
    from joblane.service.job.delete_selected import SelectedDeletion

    return SelectedDeletion(search, deleter, groups, find, pool=pool)


def _groups(
    app: Application,
    operations: Operations,
    deleter: JobDeleter,
    table: "tuple[DynamoDBClient, str]",
    pool: Callable[[int], Executor],
) -> "Groups":
    # Most requests concern no group.
    from joblane.aws.job.groups import GroupStore
    from joblane.service.group.cancel import GroupCancel
    from joblane.service.group.delete import GroupDeleter
    from joblane.service.group.groups import Groups
    from joblane.service.group.members import Members
    from joblane.service.group.restart import GroupRestart
    from joblane.service.group.settlement import GroupSettlement
    from joblane.service.group.view import GroupReader

    found, lanes, retention = GroupStore(*table), operations.lanes, operations.retention
    place = Members(found, lanes, retention, pool=pool).place
    send, rng = operations.send, random.Random()
    settlement = GroupSettlement(found, place, send, retention, rng, app.logger, app.clock)
    return Groups(
        GroupReader(found, app.jobs.find, app.now_ms),
        GroupCancel(found, operations, place, settlement, pool=pool),
        GroupRestart(found, settlement, send, retention, operations.present),
        GroupDeleter(found, deleter, pool=pool),
    )


@once
def _application() -> Application:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
