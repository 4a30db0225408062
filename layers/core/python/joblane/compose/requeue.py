"""Composes the function `requeue`: what becomes due."""

import json
import random
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING

from aws_lambda_powertools.logging import Logger
from pydantic import Json

from joblane.aws.clients import COPY, Clients
from joblane.aws.environment import Environment
from joblane.aws.files.kept_objects import KeptObjects
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.array_values import ArrayValues
from joblane.aws.job.groups import GroupStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.aws.key.keys import KeyStore
from joblane.aws.metrics import Metrics
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.moves import QueueMoveStore
from joblane.aws.queue.renewal import RenewalStore
from joblane.aws.queue.settings import SettingsStore
from joblane.aws.schedule.due_queue import DueQueue
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.deployment.names import due_name
from joblane.queue.retired import moving_queues
from joblane.service.files.keep import FileKeeper
from joblane.service.job.operations import Operations
from joblane.service.job.renewal import Renewal
from joblane.service.job.requeue import Requeue
from joblane.service.key.release import KeyRelease
from joblane.service.key.watch import KeyWatch
from joblane.service.queue.forget import MoveForgetter
from joblane.service.queue.running_shares import RunningShares
from joblane.service.schedule.due_sweep import DueSweep
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

    from joblane.service.group.expansion import Expansion
    from joblane.service.group.watch import GroupWatch
    from joblane.service.key.admission import KeyAdmission
    from joblane.service.queue.mover import QueueMover
    from joblane.service.schedule.declared import DeclaredSchedules
    from joblane.service.target.assigned import AssignedJobs
    from joblane.service.target.due import DueTargets
    from joblane.service.target.targets import Targets
    from joblane.service.typed.keys import TypeKeys


class Settings(Environment):
    """The function's environment."""

    jobs_table: str
    agents_table: str
    settings_table: str
    queues: Json[dict[str, tuple[str, ...]]]
    """The tenants of each queue; none means all."""
    retired: Json[dict[str, str | None]]
    """The retired queues, each with the one that its jobs move to."""
    maxima: str
    """JSON: the most that a job of each queue may ask for, by fleet. Read when jobs move, as the
    next one."""
    without_host_network: str
    """JSON: queues that have fleets, none of which allows the network `host`."""
    tenants: Json[tuple[str, ...]]
    jobs_running: Json[dict[str, int]]
    """The most jobs of each tenant that run at once."""
    keys_table: str
    types_table: str
    concurrency: str
    """JSON: the policies of joblane.toml. Read when a job with a key is due."""
    retention: Json[Retention]
    bucket: str
    schedules: str = "{}"
    """JSON: the schedules that joblane.toml declares."""
    metrics: Json[bool] = False
    """Whether the deployment has custom metrics."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
    random_bits: Callable[[int], int] = secrets.randbits,
) -> Requeue:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb, logger = clients.make("dynamodb"), Logger()
    jobs = JobStore(dynamodb, settings.jobs_table)
    lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
    agents = AgentStore(dynamodb, settings.agents_table)
    shares = RunningShares(
        SettingsStore(dynamodb, settings.settings_table),
        agents,
        settings.queues,
        settings.jobs_running,
    )
    operations = Operations(jobs, lanes, settings.retention)

    keyed_jobs = KeyedJobs(dynamodb, settings.jobs_table, KeyStore(dynamodb, settings.keys_table))
    releases = KeyRelease(keyed_jobs.keys, keyed_jobs, lanes, logger, clock)

    groups = GroupStore(dynamodb, settings.jobs_table)

    # Most minutes have no job for these four, and their modules would be part of every cold start.
    @cache
    def keyed() -> "KeyAdmission":
        from joblane.key.policy import read_policies
        from joblane.service.job.wake_up import send_wake_up
        from joblane.service.key.admission import KeyAdmission
        from joblane.service.key.refusals import KeyRefusals
        from joblane.service.key.rules import KeyRules

        types = cache(lambda: _make_types(dynamodb, settings.types_table))
        return KeyAdmission(
            keyed_jobs,
            KeyRules(read_policies(settings.concurrency), lambda *version: types().find(*version)),
            releases,
            partial(send_wake_up, lanes),
            settings.retention,
            KeyRefusals(logger, Metrics(settings.metrics), settings.deployment),
        )

    @cache
    def assigned() -> "AssignedJobs":
        from joblane.service.target.assigned import AssignedJobs

        return AssignedJobs(jobs, agents, operations, settings.retention)

    @cache
    def expansion() -> "Expansion":
        from joblane.service.group.expansion import Expansion
        from joblane.service.group.members import Members

        members = Members(groups, lanes, settings.retention, pool=pool)
        return Expansion(groups, members, settings.retention, lambda: int(clock() * 1000))

    @cache
    def targets() -> "Targets":
        from joblane.service.target.targets import Targets

        return Targets(agents, expansion(), random_bits, pool=pool)

    @cache
    def due_targets() -> "DueTargets":
        from joblane.service.target.due import DueTargets

        return DueTargets(targets(), operations)

    @cache
    def group_watch() -> "GroupWatch":
        from joblane.service.group.settlement import GroupSettlement
        from joblane.service.group.watch import GroupWatch

        settlement = GroupSettlement(
            groups,
            expansion().members.place,
            operations.send,
            settings.retention,
            random.Random(),
            logger,
            clock,
        )
        return GroupWatch(groups, agents, assigned(), expansion(), settlement.settle, pool=pool)

    files = FileKeeper(
        KeptObjects(lambda: clients.make("s3", COPY), settings.bucket),
        PayloadStore(
            lambda: clients.make("s3"),
            settings.bucket,
            ArrayValues(dynamodb, settings.jobs_table),
        ),
        settings.retention,
        pool=pool,
    )
    renewal = Renewal(
        RenewalStore(dynamodb, settings.settings_table),
        groups,
        lanes,
        files,
        settings.tenants,
        settings.queues,
        Metrics(settings.metrics),
        settings.deployment,
        clock,
        logger,
    )
    schedules = ScheduleStore(dynamodb, settings.jobs_table)
    due = DueQueue(clients.make("sqs"), settings.queue_url_prefix + due_name(settings.deployment))
    sweep = DueSweep(schedules, due, lambda: int(clock() * 1000), pool=pool)
    declared = cache(lambda: _make_declared(settings, schedules, due, logger, dynamodb))

    def start_schedules(now_ms: int, left_s: Callable[[], float]) -> int:
        declared().sync(now_ms)
        return sweep.run(left_s)

    moves = QueueMoveStore(dynamodb, settings.settings_table)
    moving = moving_queues(settings.retired)
    forgetter = MoveForgetter(moves, [queue for queue in settings.queues if queue not in moving])
    mover = cache(lambda: _make_mover(settings, moves, operations, targets(), logger, pool))

    def move_jobs(now_ms: int, left_s: Callable[[], float]) -> Counter[str]:
        forgetter.run()
        return mover().run(now_ms, left_s) if moving else Counter()

    return Requeue(
        jobs,
        operations,
        assigned,
        keyed,
        due_targets,
        group_watch,
        start_schedules,
        KeyWatch(keyed_jobs, releases, logger).look,
        move_jobs,
        shares.refresh,
        renewal.run,
        clock,
        logger,
        pool=pool,
    )


def _make_declared(
    settings: Settings,
    schedules: ScheduleStore,
    due: DueQueue,
    log: Logger,
    dynamodb: "DynamoDBClient",
) -> "DeclaredSchedules":
    from joblane.aws.schedule.declared import DeclarationStore
    from joblane.service.schedule.declared import DeclaredSchedules

    declarations = DeclarationStore(dynamodb, settings.settings_table)
    return DeclaredSchedules(schedules, declarations, due, settings.schedules, log)


def _make_types(dynamodb: "DynamoDBClient", table: str) -> "TypeKeys":
    # Few scheduled jobs have a type.
    from joblane.aws.typed.types import TypeStore
    from joblane.service.typed.keys import TypeKeys

    return TypeKeys(TypeStore(dynamodb, table))


def _make_mover(
    settings: Settings,
    moves: QueueMoveStore,
    operations: Operations,
    targets: "Targets",
    log: Logger,
    pool: Callable[[int], Executor],
) -> "QueueMover":
    # Few deployments have queues whose jobs move.
    from joblane.queue.maxima import read_maxima
    from joblane.service.job.edit import Edits
    from joblane.service.queue.mover import QueueMover
    from joblane.service.queue.rules import QueueRules

    rules = QueueRules(
        settings.queues,
        settings.retired,
        read_maxima(settings.maxima),
        json.loads(settings.without_host_network),
    )
    return QueueMover(
        operations.jobs,
        moves,
        Edits(operations.jobs, rules, operations, lambda: targets),
        rules=rules,
        everyone=settings.tenants,
        log=log,
        pool=pool,
    )
