"""Queues in the API: lanes, settings and activity as they are answered, and new settings."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from joblane.contract.audit import Reason
from joblane.contract.models import Body, OnlyPage, View
from joblane.deployment.names import PLATFORM, Lane
from joblane.formats.times import rfc3339
from joblane.queue.access import may_change
from joblane.queue.activity import WINDOWS, Tally
from joblane.queue.backlog import Load
from joblane.queue.moves import QueueMove
from joblane.queue.oldest import Oldest
from joblane.queue.retired import Retired
from joblane.queue.settings import QueueSettings

MAX_THREADS = 1000
"""The same limit as in joblane.toml (`joblane.config.Queue`)."""

MAX_CLUSTER_THREADS = 1_000_000


class SettingsInput(Body):
    """Body of `PUT /v1/queues/{queue}/settings`; it replaces all settings."""

    run_jobs: bool
    """False pauses the queue: no agent starts its jobs; running jobs continue."""
    threads: Annotated[int, Field(ge=0, le=MAX_THREADS)] | None
    """Most jobs of this queue that one agent runs at once; null for the value of joblane.toml."""
    cluster_threads: Annotated[int, Field(ge=0, le=MAX_CLUSTER_THREADS)] | None
    """Maximum number of this queue's jobs on all agents together; null: no limit."""
    reason: Reason | None = None
    """Why, for the audit trail."""


class SettingsView(View):
    """The settings of a queue as the API answers them."""

    run_jobs: bool
    """false while the queue is paused."""
    threads: int | None
    """Maximum number of jobs on one agent; null: `threads_declared`."""
    threads_declared: int
    """The value of joblane.toml, used while `threads` is null."""
    cluster_threads: int | None
    """Maximum number of jobs on all agents; null: no limit."""
    version: int
    """Number of changes; the ETag."""
    changed_at: str | None
    """Time of the last change."""
    changed_by: str | None
    """Caller who changed them last, if of the same tenant or of the role platform."""
    may_change: bool
    """Whether operators of the caller's tenant may change them: false for a queue that other
    tenants may use, too. True for the role platform."""


def settings_view(
    settings: QueueSettings, declared: int, tenant: str, named: Iterable[str]
) -> SettingsView:
    """The answer for a caller of `tenant`, without names of another tenant's operators.

    `named` are the tenants of the queue in joblane.toml.
    """
    visible = tenant == PLATFORM or settings.tenant in {tenant, PLATFORM}
    return SettingsView(
        run_jobs=settings.run_jobs,
        threads=settings.threads,
        threads_declared=declared,
        cluster_threads=settings.cluster_threads,
        version=settings.version,
        changed_at=None if settings.changed_ms is None else rfc3339(settings.changed_ms),
        changed_by=settings.changed_by if visible else None,
        may_change=may_change(named, tenant),
    )


class Count(View):
    """Number of jobs and of their work items."""

    jobs: int
    """Number of jobs."""
    items: int
    """Sum of their `items`."""


class OldestJob(View):
    """The job that was submitted first of those that wait and could have started.

    It is waiting, pending, retry or blocked: not scheduled, and no member of a group. One that is
    started again by hand has its first id, and so its first age.
    """

    job_id: str | None
    """Its id; null for the role platform, which reads no jobs, and if it was not among the first
    500 jobs of the time in which it was submitted."""
    submitted_at: str
    """When it was submitted; if `job_id` is null, not after this."""
    age_s: int
    """Seconds since then."""
    within_s: int
    """0; if `job_id` is null, it was submitted so many seconds before `submitted_at` at most: about
    a quarter of the age, and a minute for ages of minutes."""


class OpenJobs(View):
    """Jobs that wait or run, of the caller's tenant, or of all for the role platform.

    Counted from changes of jobs, some 5 s late; members of groups count.
    """

    waiting: Count
    """Jobs that neither run nor have ended: scheduled, waiting, pending, retry or blocked."""
    running: Count
    """Running jobs."""
    oldest: OldestJob | None
    """The oldest job that waits; null if none does."""


class Activity(View):
    """Activity of the caller's tenant, or of all for the role platform, over the last minutes."""

    minutes: int
    """Length of the window."""
    since: str
    """The beginning of a minute, so the time covered is up to one minute more than `minutes`."""
    span_s: float
    """Seconds from `since` to now; divide a count by it for a rate."""
    submitted: Count
    """New jobs."""
    started: Count
    """Attempts that started; an attempt that another agent took over counts once."""
    completed: Count
    """Jobs that ended completed."""
    failed: Count
    """Jobs that ended failed or dead."""
    retried: Count
    """Failed attempts that are followed by another one."""
    mean_wait_s: float | None
    """Mean time from ready to started; null if no job started."""


class LaneView(View):
    """One lane: message counts of its SQS queue."""

    lane: Lane
    """`high`, `default` or `low`."""
    visible: int
    """Jobs that wait for an agent."""
    in_flight: int
    """Running jobs and jobs that wait for their next attempt."""
    delayed: int
    """Jobs whose `run_at` is within 15 minutes."""
    oldest_message_s: int | None
    """Age of the oldest message, of a waiting or running job; null if CloudWatch has no value."""
    oldest_message_at: str | None
    """When SQS measured it, once a minute."""


class MoveView(View):
    """How far the jobs of a retired queue have moved to another one."""

    moved: int
    """Jobs that have moved so far, of all tenants."""
    kept: int
    """Jobs that the last pass left because the other queue does not take them; `GET
    /v1/jobs/{job_id}/why` says of each what it is. Of a pass that goes on: so far."""
    ended_at: str | None
    """When the last pass over all jobs ended; null: the first one goes on."""
    next_at: str | None
    """When the next one begins; null while one goes on."""


class RetiredView(View):
    """A queue that takes no more jobs."""

    moves_to: str | None
    """The queue that its waiting jobs move to; null: they stay, and run."""
    move: MoveView | None
    """null without `moves_to`, and until the first pass begins, within a minute after the
    deployment."""


class QueueView(View):
    """A queue as the API answers it; its lanes in the order in which agents serve them."""

    name: str
    """The queue's name."""
    lanes: tuple[LaneView, ...]
    """Its lanes, high first."""
    settings: SettingsView
    """Its settings."""
    deadline_s: float | None
    """Seconds to the deadline of new jobs that come without one, as joblane.toml has it; null: they
    have none."""
    retired: RetiredView | None
    """Set if joblane.toml retires it: it takes no more jobs."""
    jobs: OpenJobs | None
    """Its jobs that wait or run; null until the first change of a job was counted."""
    activity: tuple[Activity, ...]
    """Of the caller's tenant, or of all for the role platform, over 1, 5 and 60 minutes."""


class QueuePage(OnlyPage):
    """All queues that the caller's tenant may use, or all for the role platform."""

    entries: tuple[QueueView, ...]
    """The entries of this page."""


def retired_view(queue: str, retired: Retired, move: QueueMove | None) -> RetiredView | None:
    """The answer for a queue; None if it is not retired."""
    if queue not in retired:
        return None
    to = retired[queue]
    if to is None or move is None or move.to != to:
        return RetiredView(moves_to=to, move=None)
    due_ms = move.due_ms
    return RetiredView(
        moves_to=to,
        move=MoveView(
            moved=move.moved,
            kept=move.kept,
            ended_at=None if move.ended_ms is None else rfc3339(move.ended_ms),
            next_at=None if due_ms is None else rfc3339(due_ms),
        ),
    )


def oldest_job(oldest: Oldest | None, now_ms: int) -> OldestJob | None:
    """The answer for the oldest job of a queue or of a type."""
    if oldest is None:
        return None
    latest_ms = max(oldest.earliest_ms, min(oldest.latest_ms, now_ms))
    return OldestJob(
        job_id=oldest.job_id,
        submitted_at=rfc3339(latest_ms),
        age_s=max(0, now_ms - latest_ms) // 1000,
        within_s=-((oldest.earliest_ms - latest_ms) // 1000),
    )


def open_jobs(load: Load, oldest: OldestJob | None) -> OpenJobs:
    """The answer for the load of a queue or of a type."""
    return OpenJobs(
        waiting=Count(jobs=load.waiting, items=load.waiting_items),
        running=Count(jobs=load.running, items=load.running_items),
        oldest=oldest,
    )


def activity(minutes: Mapping[int, Tally], now_ms: int) -> list[Activity]:
    """Add up the counters of the last hour for each of `WINDOWS`."""
    return [_window(minutes, length, now_ms) for length in WINDOWS]


def _window(minutes: Mapping[int, Tally], length: int, now_ms: int) -> Activity:
    first = now_ms // 60_000 - length
    total = Tally()
    for minute, tally in minutes.items():
        if minute >= first:
            total.add(tally)
    return Activity(
        minutes=length,
        since=rfc3339(first * 60_000),
        span_s=(now_ms - first * 60_000) / 1000,
        submitted=Count(jobs=total.submitted, items=total.submitted_items),
        started=Count(jobs=total.started, items=total.started_items),
        completed=Count(jobs=total.completed, items=total.completed_items),
        failed=Count(jobs=total.failed, items=total.failed_items),
        retried=Count(jobs=total.retried, items=total.retried_items),
        mean_wait_s=round(total.waited_ms / total.started / 1000, 3) if total.started else None,
    )
