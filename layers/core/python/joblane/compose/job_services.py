"""What the function `submission` is made of: its settings, stores and services.

Each is made when a part of the routes first asks for it (`joblane.compose.submission`).
"""

import random
import secrets
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Json

from joblane.compose.api_function import ApiFunction, ApiSettings
from joblane.queue.maxima import Maxima

if TYPE_CHECKING:
    from joblane.aws.files.output_store import OutputFileStore
    from joblane.aws.job.output_store import OutputStore
    from joblane.aws.job.result_store import ResultStore
    from joblane.aws.queue.settings import SettingsStore
    from joblane.notify.rules import NotifyRules
    from joblane.service.files.input_check import InputCheck
    from joblane.service.fleet.serving_check import ServingCheck
    from joblane.service.group.groups import Groups
    from joblane.service.job.admit import Admission
    from joblane.service.job.delete import JobDeleter
    from joblane.service.job.operations import Operations
    from joblane.service.job.present_code import PresentCode
    from joblane.service.job.submit import Submitter
    from joblane.service.queue.router import QueueRouter
    from joblane.service.target.targets import Targets
    from joblane.service.typed.admission import TypedAdmission


class Settings(ApiSettings):
    """The function's environment."""

    output_table: str
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


@dataclass
class JobServices(ApiFunction[Settings]):
    """The services of this function, each made at its first use."""

    _: KW_ONLY
    random_bits: Callable[[int], int] = secrets.randbits

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
            now_ms=self.app.now_ms,
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
        return QueueRouter(rules, default, filters, self.app.logger)

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
            self.app.now_ms,
            self.app.logger,
            fleets=self.settings.fleet_queues,
            pool=self.pool,
        )

    @cached_property
    def results(self) -> "ResultStore":
        """Results that are stored in S3."""
        from joblane.aws.job.result_store import ResultStore

        return ResultStore(self.make_s3, self.settings.bucket)

    @cached_property
    def output(self) -> "OutputStore":
        """What jobs write."""
        from joblane.aws.job.output_store import OutputStore

        settings = self.settings
        return OutputStore(
            self.dynamodb,
            settings.output_table,
            self.make_s3,
            settings.bucket,
            days=settings.retention.logs_days,
            clock=self.clock,
        )

    @cached_property
    def deleter(self) -> "JobDeleter":
        """Deletes jobs with all that is stored of them."""
        from joblane.aws.job.idempotency import IdempotencyStore
        from joblane.service.job.delete import JobDeleter

        keys = IdempotencyStore(self.dynamodb, self.settings.jobs_table)
        return JobDeleter(
            self.jobs,
            self.payloads,
            self.results,
            self.output,
            lambda: self.output_files,
            keys,
            self.trail,
            self.clock,
        )

    @cached_property
    def operations(self) -> "Operations":
        """What a job's owner does with it."""
        from joblane.service.job.operations import Operations

        retention = self.settings.retention
        return Operations(
            self.jobs,
            self.lanes,
            retention,
            self.keyed,
            lambda: self.groups.restart,
            lambda: self.present,
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
    def output_files(self) -> "OutputFileStore":
        """Output files; few jobs have any."""
        from joblane.aws.files.output_store import OutputFileStore

        return OutputFileStore(self.make_s3, self.settings.bucket)

    @cached_property
    def present(self) -> "PresentCode":
        """Gives typed jobs that start again the present version of their type; few do."""
        from joblane.service.job.present_code import PresentCode

        return PresentCode(lambda: self.admission, self.payloads, self.rules)

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
        expansion = Expansion(groups, members, retention, self.app.now_ms)
        return Targets(self.agents, expansion, self.random_bits, pool=self.pool)

    @cached_property
    def groups(self) -> "Groups":
        """Reads and changes groups; most requests concern none."""
        from joblane.aws.job.groups import GroupStore
        from joblane.service.group.cancel import GroupCancel
        from joblane.service.group.delete import GroupDeleter
        from joblane.service.group.groups import Groups
        from joblane.service.group.members import Members
        from joblane.service.group.restart import GroupRestart
        from joblane.service.group.settlement import GroupSettlement
        from joblane.service.group.view import GroupReader

        app, operations, pool = self.app, self.operations, self.pool
        found, retention = (
            GroupStore(self.dynamodb, self.settings.jobs_table),
            self.settings.retention,
        )
        place = Members(found, self.lanes, retention, pool=pool).place
        send, rng = operations.send, random.Random()
        settlement = GroupSettlement(found, place, send, retention, rng, app.logger, app.clock)
        return Groups(
            GroupReader(found, app.jobs.find, app.now_ms),
            GroupCancel(found, operations, place, settlement, pool=pool),
            GroupRestart(found, settlement, send, retention, operations.present),
            GroupDeleter(found, self.deleter, pool=pool),
        )
