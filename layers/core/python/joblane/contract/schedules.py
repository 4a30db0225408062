"""Schedules in the API: what is saved and changed, what is shown, and results of due times."""

from typing import Annotated, Any, Final

from pydantic import Field

from joblane.contract.audit import Because, Reason, WhoView
from joblane.contract.models import Body, Page, View
from joblane.deployment.names import Name
from joblane.job.fields import Moment
from joblane.job.spec import Submission
from joblane.schedule.fields import (
    CatchUpSeconds,
    Cron,
    EverySeconds,
    JitterSeconds,
    Overlap,
    RequeueTemplate,
    ScheduleFields,
    Template,
    Timing,
    Zone,
)
from joblane.schedule.results import Cause, Outcome

MAX_SCHEDULE_BYTES: Final = 400_000
"""Largest body of a request that saves a schedule."""

TEMPLATE_FIELDS: Final = frozenset({"submission", "requeue"})
"""Fields of a schedule that the audit trail leaves out: they are long, and may be confidential."""

NEXT_SHOWN: Final = 5
"""Next times that the answer for one schedule shows."""

LAST_SHOWN: Final = 10
"""Results that the answer for one schedule shows, the latest first."""

MAX_PREVIEW: Final = 100


class ScheduleInput(ScheduleFields, Template):
    """Body of `POST /v1/schedules`: a schedule and what it starts."""

    name: Name
    """Its name, which no other schedule of the tenant has."""
    paused: bool = False
    """Whether it is saved as paused: nothing starts before it is resumed."""
    reason: Reason | None = None
    """Why it is done, for the audit trail."""


class ScheduleEdit(Because):
    """Body of `PATCH /v1/schedules/{schedule}`: a JSON Merge Patch (RFC 7396) of the schedule.

    What is left out stays, and null gives a field its default. A submission and a requeue are
    replaced as a whole; each takes the place of the other, and so do `cron` and `every_s`.
    """

    cron: Cron | None = None
    """Five fields; null if `every_s` takes its place."""
    every_s: EverySeconds | None = None
    """Seconds from one due time to the next; null if `cron` takes its place."""
    zone: Zone | None = None
    """The time zone of `cron`."""
    jitter_s: JitterSeconds | None = None
    """Seconds of jitter at most."""
    start: Moment | None = None
    """No due time is earlier than this; null removes it."""
    end: Moment | None = None
    """No due time is later than this; null removes it."""
    overlap: Overlap | None = None
    """What happens while what was started before has not ended."""
    catch_up_s: CatchUpSeconds | None = None
    """Age of a missed due time that still starts, in seconds."""
    pause_on_failure: bool | None = None
    """Whether it pauses when what it started has failed."""
    submission: Submission | None = None
    """What it submits."""
    requeue: RequeueTemplate | None = None
    """Which messages it sends again."""


class PreviewInput(Timing):
    """Body of `POST /v1/schedules/preview`: when a schedule would be due."""

    name: Name | None = None
    """The name that it is to have: the jitter depends on it. Without it, times have none."""
    count: Annotated[int, Field(ge=1, le=MAX_PREVIEW)] = NEXT_SHOWN
    """How many times to show, 100 at most."""


class BackfillInput(Body):
    """Body of a backfill: for which past times to start what the schedule starts."""

    from_: Annotated[Moment, Field(alias="from")]
    """The first time."""
    to: Moment
    """The last time, not in the future. At most 500 due times may lie between both."""
    check: bool = False
    """Start nothing: the answer's `left` is how many due times lie between both."""
    reason: Reason | None = None
    """Why it is done, for the audit trail."""


class NextTime(View):
    """A time at which a schedule is due."""

    due_at: str
    """The time that its job gets as `JOBLANE_SCHEDULED_AT`: RFC 3339 in UTC."""
    local: str
    """The same in the schedule's zone, with its offset: `2026-03-29T03:00:00+02:00`."""
    starts_at: str
    """When it starts: `due_at` and the schedule's jitter."""


class ResultView(View):
    """What became of a due time, or of several in a row."""

    due_at: str
    """The due time, or the first of several. Of a run that somebody asked for, when that was."""
    to_at: str | None
    """The last of several due times; null for one."""
    times: int | None
    """How many due times: 1, or more with `to_at`. null for more than 10,000."""
    outcome: Outcome
    """What became of them."""
    cause: Cause
    """What it comes from."""
    job_id: str | None
    """Id of the job or group that was started; null if none was."""
    at: str
    """When it was decided."""
    text: str
    """Why, in a sentence."""


class ScheduleSummary(View):
    """A schedule without its template."""

    name: str
    """Its name."""
    tenant: str
    """Its tenant, with whose rights and limits it starts what is due."""
    what: str
    """What it starts, in a few words: `type sync-tickets`, or the beginning of its command."""
    cron: str | None
    """Its expression; null with `every_s`."""
    every_s: int | None
    """Its period in seconds; null with `cron`."""
    zone: str
    """The time zone of `cron`."""
    jitter_s: int
    """Seconds of jitter at most."""
    start: str | None
    """No due time is earlier."""
    end: str | None
    """No due time is later."""
    overlap: Overlap
    """What happens while what was started before has not ended."""
    catch_up_s: int
    """Age of a missed due time that still starts, in seconds."""
    pause_on_failure: bool
    """Whether it pauses when what it started has failed."""
    paused: bool
    """Whether it is paused."""
    declared: bool
    """Whether joblane.toml declares it: the API pauses, resumes and runs it, and changes nothing
    else."""
    version: int
    """Number of its changes, from 1; the ETag."""
    next: NextTime | None
    """When it is due next; null if it is paused, or never due again."""
    last: ResultView | None
    """The latest result; null before the first."""
    why: str | None
    """Why it does not start anything when it is due, or will not be due again, in a sentence: it is
    paused, over, late, or waits for what it started before. The answer for one schedule also says
    that its submission would be refused now, such as by a queue that is gone; a list does not look
    at that. null if it starts."""


class SchedulePage(Page):
    """A page of a tenant's schedules, by name."""

    entries: tuple[ScheduleSummary, ...]
    """The entries of this page."""


class ScheduleView(ScheduleSummary):
    """A schedule."""

    submission: dict[str, Any] | None
    """What it submits, with the fields that were given; null with `requeue`."""
    requeue: RequeueTemplate | None
    """Which messages it sends again; null with `submission`."""
    running: str | None
    """Id of the job or group that it started last, which may have ended; null for none."""
    next_times: tuple[NextTime, ...]
    """The next five times at which it is due, also while it is paused."""
    results: tuple[ResultView, ...]
    """The latest ten results, the newest first."""
    warnings: tuple[str, ...]
    """What is surprising: what the expression does when clocks are changed, and input files that
    expire before they are used."""
    created_at: str
    """When it was created."""
    created_by: WhoView | None
    """Who created it; null if joblane.toml declares it."""
    changed_at: str
    """When it was created or last changed, paused or resumed."""


class ResultPage(Page):
    """A page of a schedule's results, the newest first."""

    entries: tuple[ResultView, ...]
    """The entries of this page."""


class Preview(View):
    """When a schedule would be due."""

    zone: str
    """The time zone of `cron`."""
    next_times: tuple[NextTime, ...]
    """The next times; fewer than asked for if it is over before."""
    warnings: tuple[str, ...]
    """What is surprising about it: what a wildcard does when clocks are changed."""


class Backfilled(View):
    """What a backfill did."""

    started: int
    """Due times for which a job or group was submitted."""
    already: int
    """Due times that have a job or group of this schedule; it is left as it is."""
    refused: int
    """Due times for which the submission was not accepted."""
    left: int
    """Due times that were not reached for lack of time: send the request again. With `check` all
    of them."""
    text: str
    """The same as a sentence; of what was refused, why."""
    jobs: tuple[str, ...]
    """Ids of all that were started."""
