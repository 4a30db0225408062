"""Options of the command `schedules`: when a schedule is due, and what it starts."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_type_hints

import typer

from joblane.client.cli import completion, times
from joblane.client.cli.job.changeable import option_of
from joblane.client.cli.job.options import JobOptions

if TYPE_CHECKING:
    from joblane.client.clients import Client
    from joblane.client.schedules import Requeue, ScheduleFields, Timing

NONE: Final = "none"
"""The value of an option that removes what the schedule has."""

NOT_SCHEDULED: Final = frozenset({"run_at", "deadline", "idempotency_key"})
"""Options of `submit` that are about one job, and so not about what is started again and again."""

OF_REQUEUE: Final = ("job_type", "priority")
"""Options of `submit` that `--requeue` takes, too."""

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Schedule.", autocompletion=completion.schedules),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """Options that say when a schedule is due."""

    cron: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="Minute, hour, day of the month, month, day of the week, such as '0 2 * * *'; or"
            " @hourly, @daily, @weekly, @monthly, @yearly.",
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time from one due time to the next, such as 5m or 1h30m, in place of --cron;"
            " counted from --start, without it from 1970: 1h is due at each full hour.",
        ),
    ] = None
    zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Time zone of --cron, such as Europe/Berlin (default: UTC)."
        ),
    ] = None
    jitter: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Start up to so much later, by the same time each time; 1h at most.",
        ),
    ] = None
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="No due time is earlier than this.")
    ] = None
    end: Annotated[
        str | None, typer.Option(metavar="TIME", help="No due time is later than this.")
    ] = None

    def timing(self) -> "Timing":
        """The fields that are given; None removes. Raises `typer.BadParameter`."""
        if self.cron is not None and self.every is not None:
            raise typer.BadParameter("--cron and --every exclude each other")
        given: dict[str, Any] = {
            "cron": self.cron,
            "every_s": times.seconds("--every", self.every),
            "zone": self.zone,
            "jitter_s": times.seconds("--jitter", self.jitter),
        }
        found = {name: value for name, value in given.items() if value is not None}
        for name, text in (("start", self.start), ("end", self.end)):
            if text is not None:
                found[name] = None if text == NONE else _moment(name, text)
        return cast("Timing", found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(TimingOptions):
    """Options of a schedule besides those of what it submits."""

    schedule: Name
    overlap: Annotated[
        Literal["skip", "queue", "replace", "allow"] | None,
        typer.Option(
            help="If what was started before has not ended: skip the due time (default), queue:"
            " start after it, replace: cancel it first, allow: start beside it."
        ),
    ] = None
    catch_up: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="After an outage, start the latest missed due time if it is not older than this"
            " (default: 1h; 7d at most).",
        ),
    ] = None
    pause_on_failure: Annotated[
        bool | None,
        typer.Option(
            "--pause-on-failure/--no-pause-on-failure",
            help="Pause the schedule when what it started has failed.",
            show_default=False,
        ),
    ] = None
    requeue: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE",
            help="In place of a command: send new messages for the open jobs of this queue, with"
            " --type of that type, with --priority in that lane.",
            autocompletion=completion.queues,
        ),
    ] = None

    def fields(self) -> "ScheduleFields":
        """The fields that are given; None removes. Raises `typer.BadParameter`."""
        found = cast("ScheduleFields", self.timing())
        if self.overlap is not None:
            found["overlap"] = self.overlap
        if self.catch_up is not None:
            found["catch_up_s"] = times.seconds("--catch-up", self.catch_up)
        if self.pause_on_failure is not None:
            found["pause_on_failure"] = self.pause_on_failure
        return found

    def requeued(self, job: JobOptions) -> "Requeue | None":
        """What is requeued; None for a submission. Raises `typer.BadParameter`."""
        if self.requeue is None:
            return None
        if other := [name for name in given_options(job) if name not in OF_REQUEUE]:
            what = "a command" if other[0] == "command" else name_option(other[0])
            raise typer.BadParameter(f"--requeue and {what} exclude each other")
        made: Requeue = {"queue": self.requeue}
        if job.job_type is not None:
            made["type"] = job.job_type
        if job.priority is not None:
            made["priority"] = job.priority
        return made


def given_options(job: JobOptions) -> list[str]:
    """Names of the options of a submission that are not their defaults."""
    return [
        field.name
        for field in fields(job)
        if getattr(job, field.name) != field.default and getattr(job, field.name) != []
    ]


def name_option(field: str) -> str:
    """Return an option of a submission as it is typed: `--input` of the field `inputs`."""
    hints = get_type_hints(JobOptions, include_extras=True)
    typed = [text for info in hints[field].__metadata__ for text in info.param_decls or ()]
    long = (text.partition("/")[0] for text in typed if text.startswith("--"))
    return next(long, option_of(field))


def submission(client: "Client", job: JobOptions) -> dict[str, Any]:
    """The submission of the options, after its files were uploaded.

    Standard input is read with `--stdin` only: what starts at night is written in a script that
    has one of its own. Raises `JoblaneError` and `typer.BadParameter`.
    """
    made = job.submission()
    return made | job.upload(client, read_stdin=False)


def _moment(name: str, text: str) -> str | None:
    return times.utc_time(option_of(name), text, "ahead", in_future=name == "end")
