"""Composes the function `submission`: the API's routes of jobs."""

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from joblane.aws.clients import Clients
from joblane.compose.api_function import ApiFunction, ApiSettings
from joblane.compose.submitting import Submitting, SubmittingSettings
from joblane.http.application import Application

if TYPE_CHECKING:
    from joblane.aws.files.output_store import OutputFileStore
    from joblane.aws.job.output_store import OutputStore
    from joblane.aws.job.result_store import ResultStore
    from joblane.service.group.groups import Groups
    from joblane.service.job.delete import JobDeleter
    from joblane.service.job.delete_selected import SelectedDeletion
    from joblane.service.job.operations import Operations
    from joblane.service.job.present_code import PresentCode
    from joblane.service.job.resubmit import Resubmitter
    from joblane.service.job.selected_jobs import SelectedJobs
    from joblane.service.schedule.backfill import Backfill
    from joblane.service.schedule.schedules import Schedules


class Settings(SubmittingSettings, ApiSettings):
    """The function's environment."""

    output_table: str


@dataclass
class SubmissionFunction(Submitting[Settings], ApiFunction[Settings]):
    """The parts of this function, and what only they use."""

    def add_parts(self) -> Application:
        """Add all parts; each is loaded by the first request for it."""
        job, add = "/v1/jobs/{job_id}", self.app.parts.add
        add(self.add_submissions, "POST /v1/jobs", "POST /v1/queues/explain")
        add(self.add_jobs, "GET /v1/jobs")
        add(self.add_operations, f"DELETE {job}", f"POST {job}")
        add(self.add_edit, f"PATCH {job}")
        add(self.add_resubmissions, "POST /v1/jobs/resubmit", f"POST {job}/resubmit")
        add(
            self.add_selected, "POST /v1/jobs/cancel", "POST /v1/jobs/delete", "POST /v1/jobs/retry"
        )
        add(self.add_groups, "/v1/groups")
        add(self.add_schedules, "/v1/schedules")
        add(self.add_log, f"GET {job}/logs")
        add(self.add_trail, f"GET {job}/audit")
        return self.app

    def add_submissions(self) -> None:
        """Bind the routes that submit jobs."""
        from joblane.http.submission_routes import submission_routes
        from joblane.service.job.submit_batch import BatchSubmitter

        batches = BatchSubmitter(self.submitter, pool=self.pool)
        submission_routes(self.app, self.submitter, batches)

    def add_jobs(self) -> None:
        """Bind the routes that read jobs."""
        from joblane.http.job_routes import job_routes
        from joblane.service.job.read import JobViews

        views = JobViews(
            self.payloads,
            self.results,
            self.queue_settings,
            self.agents,
            self.settings.queues,
            self.clock,
        )
        job_routes(self.app, self.search, views)

    def add_operations(self) -> None:
        """Bind the routes with which a job's owner stops, restarts, hides or deletes it."""
        from joblane.http.job_operation_routes import job_operation_routes

        job_operation_routes(
            self.app, self.limits, self.operations, self.deleter, lambda: self.groups
        )

    def add_edit(self) -> None:
        """Bind the route that edits a job."""
        from joblane.http.edit_route import edit_route

        edit_route(self.app, self.serving, self.make_edits)

    def add_resubmissions(self) -> None:
        """Bind the routes that submit ended jobs again."""
        from joblane.http.resubmission_routes import resubmission_routes

        resubmission_routes(self.app, self.make_resubmitter)

    def add_selected(self) -> None:
        """Bind the routes that change the jobs which filters select."""
        from joblane.http.selected_jobs_routes import selected_jobs_routes

        selected_jobs_routes(self.app, self.limits, self.make_selected, self.make_selected_deletion)

    def add_groups(self) -> None:
        """Bind the routes of groups."""
        from joblane.http.group_routes import group_routes

        group_routes(self.app, lambda: self.groups, self.limits)

    def add_schedules(self) -> None:
        """Bind the routes of schedules."""
        from joblane.http.schedule_routes import schedule_routes
        from joblane.service.schedule.results import Results

        schedule_routes(
            self.app, self.schedules, Results(self.schedules.store), lambda: self.backfill
        )

    def add_log(self) -> None:
        """Bind the route of a job's output."""
        from joblane.http.log_routes import log_route
        from joblane.service.output.follow import FollowSender
        from joblane.service.output.read import JobOutput, WaitWindow

        log = self.app.logger
        window = WaitWindow(self.random_bits(32) / 2**32)
        follow = FollowSender(self.lanes, self.clock, log, sent={})
        output = JobOutput(self.jobs, self.output, self.clock, log, window.left_s, follow.note_end)
        log_route(self.app, output)

    def add_trail(self) -> None:
        """Bind the route of a job's audit trail."""
        from joblane.http.audit_routes import job_trail_route

        job_trail_route(self.app, self.trail)

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
    def groups(self) -> "Groups":
        """Reads and changes groups; most requests concern none."""
        from joblane.service.group.delete import GroupDeleter
        from joblane.service.group.groups import Groups
        from joblane.service.group.restart import GroupRestart
        from joblane.service.group.view import GroupReader

        settlement, operations = self.group_settlement, self.operations
        found, retention = settlement.groups, self.settings.retention
        return Groups(
            GroupReader(found, self.app.jobs.find, self.app.now_ms),
            self.group_cancel,
            GroupRestart(found, settlement, operations.send, retention, operations.present),
            GroupDeleter(found, self.deleter, pool=self.pool),
        )

    @cached_property
    def schedules(self) -> "Schedules":
        """What people do with schedules."""
        from joblane.formats.ids import new_id
        from joblane.service.schedule.schedules import Schedules

        return Schedules(
            self.schedule_store,
            self.due_queue,
            lambda: self.starts,
            self.app.now_ms,
            lambda now_ms: new_id(now_ms, self.random_bits(80)),
            self.settings.retention.files_days,
        )

    @cached_property
    def backfill(self) -> "Backfill":
        """Starts what schedules have not started."""
        from joblane.service.schedule.backfill import Backfill

        return Backfill(self.schedules, self.jobs, self.starts, self.clock)

    def make_selected(self) -> "SelectedJobs":
        """Make what changes many jobs."""
        from joblane.service.job.selected_jobs import SelectedJobs

        return SelectedJobs(
            self.search, self.operations, lambda: self.groups, self.find_job, pool=self.pool
        )

    def make_resubmitter(self) -> "Resubmitter":
        """Make what submits jobs again."""
        from joblane.service.job.resubmit import Resubmitter

        return Resubmitter(self.submitter, self.search, pool=self.pool)

    def make_selected_deletion(self) -> "SelectedDeletion":
        """Make what deletes many jobs."""
        from joblane.service.job.delete_selected import SelectedDeletion

        return SelectedDeletion(
            self.search, self.deleter, lambda: self.groups, self.find_job, pool=self.pool
        )


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
    random_bits: Callable[[int], int] = secrets.randbits,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    function = SubmissionFunction(
        settings, clients, clock, pool, monotonic=monotonic, random_bits=random_bits
    )
    return function.add_parts()
