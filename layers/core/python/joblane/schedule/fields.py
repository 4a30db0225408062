"""The fields of a schedule: when it is due, what it starts, and what overlaps.

Messages name what is wrong and what is allowed, and never repeat the value.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationInfo, field_validator

from joblane.deployment.names import Lane, Name
from joblane.formats.text import shorten
from joblane.formats.times import unix_ms
from joblane.job.fields import INPUT, STORED, Input, Moment, TypeName, json_bytes
from joblane.job.spec import Submission

LEAST_EVERY_S: Final = 60
"""Shortest period of a schedule, in seconds: rows are looked at each minute."""

MAX_EVERY_S: Final = 366 * 86_400
"""Longest period of a schedule, in seconds: a year."""

MAX_CATCH_UP_S: Final = 7 * 86_400
"""Oldest due time that is caught up with, in seconds: a week."""

MAX_JITTER_S: Final = 3600
"""Longest jitter, in seconds."""

MAX_CRON_CHARS: Final = 200

MAX_TEMPLATE_BYTES: Final = 300_000
"""Longest template as JSON in UTF-8: it is one item of the table, which takes 400 KB."""

WHAT_CHARS: Final = 80
"""Longest text that says what a schedule starts."""

MAX_BACKFILL: Final = 500
"""Most due times of one backfill."""

Overlap = Literal["skip", "queue", "replace", "allow"]
"""What happens at a due time while what the schedule started before has not ended."""

Zone = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""Name of the IANA time zone database, such as `Europe/Berlin`."""

Cron = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CRON_CHARS)]
"""Five fields, such as `0 2 * * *`, or one of `@hourly`, `@daily`, `@midnight`, `@weekly`,
`@monthly`, `@yearly`, `@annually`."""

EverySeconds = Annotated[int, Field(ge=LEAST_EVERY_S, le=MAX_EVERY_S)]
CatchUpSeconds = Annotated[int, Field(ge=0, le=MAX_CATCH_UP_S)]
JitterSeconds = Annotated[int, Field(ge=0, le=MAX_JITTER_S)]


class Timing(BaseModel):
    """When a schedule is due."""

    model_config = INPUT

    cron: Cron | None = None
    """Five fields: minute, hour, day of the month, month, day of the week, such as `0 2 * * *`; or
    `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Either this or `every_s`."""
    every_s: Annotated[EverySeconds | None, Field(validate_default=True)] = None
    """Seconds from one due time to the next, 60 or more, counted from `start`, without it from
    1970-01-01T00:00:00Z: 3600 is due at each full hour."""
    zone: Zone = "UTC"
    """The time zone of `cron`, and of the local times that are shown, by its name in the IANA
    database, such as `Europe/Berlin`."""
    jitter_s: JitterSeconds = 0
    """What is due starts up to so many seconds later, always by the same number for this schedule,
    so that many schedules of one time do not start at once."""
    start: Moment | None = None
    """No due time is earlier than this."""
    end: Moment | None = None
    """No due time is later than this."""

    @field_validator("cron")
    @classmethod
    def _can_be_due(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.context != STORED:
            from joblane.schedule.cron import expand  # cold starts need it for nothing

            expand(value)
        return value

    @field_validator("zone")
    @classmethod
    def _is_known(cls, value: str, info: ValidationInfo) -> str:
        # A row is read whatever a later database says: requeue reads those of all tenants at once.
        if value != "UTC" and info.context != STORED:
            from joblane.schedule import zones

            zones.load(value)
        return value

    @field_validator("every_s")
    @classmethod
    def _cron_or_every(cls, value: int | None, info: ValidationInfo) -> int | None:
        if "cron" in info.data and (info.data["cron"] is None) == (value is None):
            raise ValueError("give either cron or every_s, and not both")
        return value

    @field_validator("end")
    @classmethod
    def _after_start(cls, value: str | None, info: ValidationInfo) -> str | None:
        start = info.data.get("start")
        if value is not None and start is not None and unix_ms(value) <= unix_ms(start):
            raise ValueError("must be after start")
        return value


class ScheduleFields(Timing):
    """The fields of a schedule besides its name and its template."""

    overlap: Overlap = "skip"
    """What happens at a due time while what the schedule started before has not ended: `skip` the
    due time, `queue` (start when that has ended; one waits at most), `replace` (cancel that, then
    start), or `allow` both."""
    catch_up_s: CatchUpSeconds = 3600
    """After an outage, the latest missed due time starts if it is not older than this; all others
    are results of `missed`."""
    pause_on_failure: bool = False
    """Pause the schedule if what it started before has failed: it is looked at when the schedule is
    due again. After a resume it goes on until the next failure."""

    @property
    def timing(self) -> Timing:
        """When it is due, alone."""
        return Timing.model_construct(**{n: getattr(self, n) for n in Timing.model_fields})


class RequeueTemplate(Input):
    """What a schedule does instead of a submission: it sends messages of open jobs again."""

    queue: Name
    """The queue whose jobs get new messages; `_all` is not allowed here."""
    type: TypeName | None = None
    """Only jobs of this type; `command` jobs and all types without it."""
    priority: Lane | None = None
    """The lane that those which wait are moved to; without it they stay in theirs."""


class Template(Input):
    """What a schedule does when it is due: a submission, or a requeue."""

    submission: Submission | None = None
    """The job, array or broadcast that is submitted, as `POST /v1/jobs` takes it, without `run_at`
    and `deadline`; it is checked when the schedule is saved, and each time it is due."""
    requeue: Annotated[RequeueTemplate | None, Field(validate_default=True)] = None
    """Messages of open jobs are sent again instead, as `POST /v1/queues/{queue}/requeue` does."""

    @field_validator("submission")
    @classmethod
    def _fits(cls, value: Submission | None) -> Submission | None:
        if value is None:
            return value
        for name in ("run_at", "deadline"):
            if getattr(value, name) is not None:
                raise ValueError(f"must not have {name}, one moment: the schedule says when")
        size = json_bytes(value.model_dump(mode="json", exclude_defaults=True))
        if size > MAX_TEMPLATE_BYTES:
            raise ValueError(
                f"takes {size} bytes as JSON; a schedule's may take {MAX_TEMPLATE_BYTES}: upload "
                "what is long as an input file"
            )
        return value

    @field_validator("requeue")
    @classmethod
    def _submission_or_requeue(
        cls, value: RequeueTemplate | None, info: ValidationInfo
    ) -> RequeueTemplate | None:
        if "submission" in info.data and (info.data["submission"] is None) == (value is None):
            raise ValueError("give either a submission or a requeue, and not both")
        return value

    def what(self) -> str:
        """Say what it starts, in 80 characters: `type sync-tickets`, `make test`."""
        if self.requeue is not None:
            of = "" if self.requeue.type is None else f" of type {self.requeue.type}"
            return f"requeue{of} in queue {self.requeue.queue}"
        spec = self.submission
        if spec is None:
            return "nothing"
        said = f"type {spec.type}" if spec.type is not None else " ".join(spec.command)
        return shorten(said, WHAT_CHARS)
