"""What the functions that submit jobs have in common: `submission`, and `due` for schedules."""

import secrets
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pydantic import Json

from joblane.compose.function_parts import FunctionParts, PartsSettings
from joblane.queue.maxima import Maxima

if TYPE_CHECKING:
    from joblane.aws.queue.settings import SettingsStore
    from joblane.aws.schedule.due_queue import DueQueue
    from joblane.aws.schedule.schedules import ScheduleStore
    from joblane.notify.rules import NotifyRules
    from joblane.service.files.input_check import InputCheck
    from joblane.service.fleet.serving_check import ServingCheck
    from joblane.service.group.cancel import GroupCancel
    from joblane.service.group.settlement import GroupSettlement
    from joblane.service.job.admit import Admission
    from joblane.service.job.bulk import BulkOperations
    from joblane.service.job.edit import Edits
    from joblane.service.job.operations import Operations
    from joblane.service.job.submit import Submitter
    from joblane.service.queue.router import QueueRouter
    from joblane.service.schedule.starts import Starts
    from joblane.service.target.targets import Targets
    from joblane.service.typed.admission import TypedAdmission


class SubmittingSettings(PartsSettings):
    """What the environment of each of these functions has."""

    tenants: Json[tuple[str, ...]]
    maxima: Json[dict[str, tuple[Maxima, ...]]]
    """The most that a job of each queue may ask for, by fleet."""
    fleet_queues: Json[dict[str, tuple[str, ...]]]
    """The queues that each fleet serves."""
    without_host_network: Json[frozenset[str]]
    """Queues that have fleets, none of which allows the network `host`."""
    default_queue: str
    default_queues: Json[dict[str, str]]
    """Those of tenants that have one of their own."""
    filters: Json[tuple[tuple[str, int, str], ...]]
    """Those of queues, by falling order: the members of `QueueFilter`."""
    notify: str
    """JSON of `NotifyRules`, read when needed; `{}` if no tenant may ask for any."""


Settings = TypeVar("Settings", bound=SubmittingSettings)


@dataclass
class Submitting(FunctionParts[Settings]):
    """What submits jobs; each is made when it is first asked for."""

    _: KW_ONLY
    random_bits: Callable[[int], int] = secrets.randbits

    @cached_property
    def operations(self) -> "Operations":
        """Cancels and edits jobs."""
        from joblane.service.job.operations import Operations

        return Operations(self.jobs, self.lanes, self.settings.retention, self.keyed)

    @cached_property
    def group_settlement(self) -> "GroupSettlement":
        """Ends groups whose members have ended."""
        import random

        from joblane.aws.job.groups import GroupStore
        from joblane.service.group.members import Members
        from joblane.service.group.settlement import GroupSettlement

        groups = GroupStore(self.dynamodb, self.settings.jobs_table)
        retention, log = self.settings.retention, self.logger
        place = Members(groups, self.lanes, retention, pool=self.pool).place
        send = self.operations.send
        return GroupSettlement(groups, place, send, retention, random.Random(), log, self.clock)

    @cached_property
    def group_cancel(self) -> "GroupCancel":
        """Cancels groups."""
        from joblane.service.group.cancel import GroupCancel

        settlement = self.group_settlement
        place = settlement.place
        return GroupCancel(settlement.groups, self.operations, place, settlement, pool=self.pool)

    @cached_property
    def submitter(self) -> "Submitter":
        """Submits jobs."""
        from joblane.aws.job.idempotency import IdempotencyStore
        from joblane.service.job.submit import Submitter

        return Submitter(
            self.jobs,
            self.payloads,
            self.lanes,
            IdempotencyStore(self.dynamodb, self.settings.jobs_table),
            admission=self.admission,
            keyed=self.keyed,
            limits=self.limits,
            serving=self.serving,
            targets=lambda: self.targets,
            now_ms=self.now_ms,
            random_bits=self.random_bits,
        )

    @cached_property
    def admission(self) -> "Admission":
        """Decides which submissions are accepted."""
        from joblane.service.job.admit import Admission

        settings = self.settings
        return Admission(
            settings.deployment,
            self.router,
            settings.fleet_queues,
            settings.deadlines,
            self.make_typed,
            lambda: self.inputs,
            (lambda: self.notify_rules) if settings.notify != "{}" else None,
        )

    @cached_property
    def router(self) -> "QueueRouter":
        """Chooses queues."""
        from joblane.queue.routing import DefaultQueues, QueueFilter
        from joblane.service.queue.router import QueueRouter
        from joblane.service.queue.rules import QueueRules

        settings = self.settings
        rules = QueueRules(
            settings.queues, settings.retired, settings.maxima, settings.without_host_network
        )
        default = DefaultQueues(settings.default_queue, settings.default_queues)
        filters = tuple(QueueFilter(*each) for each in settings.filters)
        return QueueRouter(rules, default, filters, self.logger)

    @cached_property
    def queue_settings(self) -> "SettingsStore":
        """The settings table."""
        from joblane.aws.queue.settings import SettingsStore

        return SettingsStore(self.dynamodb, self.settings.settings_table)

    @cached_property
    def serving(self) -> "ServingCheck":
        """Says whether any agent can serve a job."""
        from joblane.service.fleet.serving_check import ServingCheck

        return ServingCheck(
            self.queue_settings,
            self.agents,
            self.now_ms,
            self.logger,
            fleets=self.settings.fleet_queues,
            pool=self.pool,
        )

    def make_typed(self) -> "TypedAdmission":
        """Return what admits typed jobs, made at the first call."""
        return self.typed

    @cached_property
    def notify_rules(self) -> "NotifyRules":
        """Whom jobs may notify; few deployments notify anybody."""
        from joblane.notify.rules import NotifyRules

        return NotifyRules.model_validate_json(self.settings.notify)

    @cached_property
    def inputs(self) -> "InputCheck":
        """Checks input files; few jobs have any."""
        from joblane.aws.files.store import FileStore
        from joblane.service.files.input_check import InputCheck

        settings = self.settings
        files = FileStore(self.make_s3, settings.bucket)
        return InputCheck(files, settings.limits, settings.retention.files_days, pool=self.pool)

    @cached_property
    def targets(self) -> "Targets":
        """Finds the agents of targets; few jobs have one."""
        from joblane.aws.job.groups import GroupStore
        from joblane.service.group.expansion import Expansion
        from joblane.service.group.members import Members
        from joblane.service.target.targets import Targets

        retention = self.settings.retention
        groups = GroupStore(self.dynamodb, self.settings.jobs_table)
        members = Members(groups, self.lanes, retention, pool=self.pool)
        expansion = Expansion(groups, members, retention, self.now_ms)
        return Targets(self.agents, expansion, self.random_bits, pool=self.pool)

    def make_edits(self) -> "Edits":
        """Make what edits jobs."""
        from joblane.service.job.edit import Edits

        rules = self.router.rules
        return Edits(self.jobs, rules, self.operations, lambda: self.targets, self.make_typed)

    @cached_property
    def schedule_store(self) -> "ScheduleStore":
        """Schedules, in the jobs table."""
        from joblane.aws.schedule.schedules import ScheduleStore

        return ScheduleStore(self.dynamodb, self.settings.jobs_table)

    @cached_property
    def due_queue(self) -> "DueQueue":
        """The queue of schedules that are due within minutes."""
        from joblane.aws.schedule.due_queue import DueQueue
        from joblane.deployment.names import due_name

        url = self.settings.queue_url_prefix + due_name(self.settings.deployment)
        return DueQueue(self.clients.make("sqs"), url)

    @cached_property
    def starts(self) -> "Starts":
        """Starts what schedules start."""
        from joblane.service.schedule.starts import Starts

        tenants = frozenset(self.settings.tenants)
        return Starts(self.submitter, tenants, lambda: self.bulk, self.make_edits)

    @cached_property
    def bulk(self) -> "BulkOperations":
        """Requeues jobs; few schedules do."""
        from joblane.service.job.bulk import BulkOperations

        return BulkOperations(
            self.jobs, self.lanes, self.operations, self.limits, self.settings.queues, self.types
        )
