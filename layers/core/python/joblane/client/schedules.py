"""Calls that concern schedules: what starts by itself, when, and what became of it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from joblane.client import models
from joblane.client.answers import as_object
from joblane.client.calls import (
    LIST_MAX,
    ApiCall,
    ApiStream,
    C,
    Call,
    Caller,
    Item,
    Stream,
    act,
    answers,
    ask,
    get,
    list_entries,
    segment,
)
from joblane.client.fields import (
    Command,
    Moment,
    Seconds,
    Submission,
    SubmissionFields,
    encode_fields,
    rfc3339,
    seconds,
)
from joblane.client.files.calls import build_submission, with_uploads
from joblane.handler.job_type import JobType

_ALL = "/v1/schedules"

DURATIONS = ("every_s", "jitter_s", "catch_up_s")
MOMENTS = ("start", "end")


class Timing(TypedDict, total=False):
    """When a schedule is due: `cron` or `every_s`, and the rest."""

    cron: str | None
    """Five fields, such as `0 2 * * *`, or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""
    every_s: Seconds | None
    """Time from one due time to the next, a minute or more, counted from `start`."""
    zone: str | None
    """IANA time zone of `cron`, such as `Europe/Berlin`; UTC by default."""
    jitter_s: Seconds | None
    """What is due starts up to so much later, by the same time each time; at most an hour."""
    start: Moment | None
    """No due time is earlier."""
    end: Moment | None
    """No due time is later."""


class ScheduleFields(Timing, total=False):
    """Fields of a schedule besides its name and what it starts.

    A test compares the names with `joblane.schedule.fields`, whose models validate them.
    """

    overlap: Literal["skip", "queue", "replace", "allow"] | None
    """What happens at a due time while what was started before has not ended; `skip` by default."""
    catch_up_s: Seconds | None
    """After an outage, the latest missed due time starts if it is not older; an hour by default."""
    pause_on_failure: bool | None
    """Whether the schedule pauses when what it started has failed."""


class Requeue(TypedDict, total=False):
    """What a schedule does in place of a submission: new messages for the open jobs of a queue."""

    queue: str
    type: str
    """Only jobs of this type."""
    priority: Literal["high", "default", "low"]
    """The lane that those which wait are moved to."""


class ScheduleOptions(SubmissionFields, ScheduleFields, total=False):
    """Keywords of `add`: the fields of the schedule, and those of the submission."""


class ScheduleChanges(ScheduleFields, total=False):
    """Keywords of `edit`; what is left out stays, and None gives a field its default."""

    submission: Submission
    """Takes the place of the whole submission, or of the requeue."""
    requeue: Requeue
    """Takes the place of the submission, or of the whole requeue."""


class Schedules(Caller[C]):
    """The calls, as `client.schedules`.

    They raise `NotFoundError` for an unknown name, and `RequestError`: 400 with one entry in
    `fields` for each field that was refused, 409 for what a schedule of joblane.toml does not
    allow, or another's name.
    """

    def __init__(self, connection: C) -> None:
        self._connection = connection

    @answers(models.ScheduleView)
    def add(
        self,
        schedule: str,
        command: Command | str | JobType[Any, Any] | None = None,
        params: Any = None,
        *,
        requeue: Requeue | None = None,
        paused: bool = False,
        reason: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Call[dict[str, Any]]:
        """Create a schedule of this name, which starts a command or a job of a type.

        `client.schedules.add("nightly", ["make", "test"], cron="0 2 * * *", zone="Europe/Berlin")`.
        `command`, `params` and the other fields are those of `client.submit`, arrays and targets
        included, without `run_at` and `deadline`; files are uploaded now. `requeue` takes the place
        of the command. `next_times` of the answer are the next five due times, `warnings` what is
        surprising about them. Raises `RequestError` (409) if there is a schedule of this name.
        """
        of_schedule = ScheduleFields.__annotations__
        given = {name: value for name, value in options.items() if name in of_schedule}
        body = {"name": schedule, **encode_timing(given)}
        if requeue is None:
            rest = {name: value for name, value in options.items() if name not in of_schedule}
            body["submission"] = yield from build_submission(command, params, rest)
        else:
            body["requeue"] = dict(requeue)
        if paused:
            body["paused"] = True
        return as_object((yield from act("POST", _ALL, body, reason=reason)), "a schedule")

    @answers(models.Preview)
    def preview(
        self, *, name: str | None = None, count: int = 5, **timing: Unpack[Timing]
    ) -> Call[dict[str, Any]]:
        """Read when a schedule would be due, `count` times, at most 100; nothing is saved.

        `name` is the name that it is to have: the jitter depends on it.
        """
        body = {**encode_timing(timing), "count": count}
        if name is not None:
            body["name"] = name
        return as_object((yield from ask(f"{_ALL}/preview", body)), "due times")

    @answers(models.SchedulePage)
    def page(self, *, limit: int = LIST_MAX, cursor: str | None = None) -> Call[dict[str, Any]]:
        """Read one page of the schedules by name, from `cursor` (the `next` of the page before)."""
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None}
        return as_object((yield from get(_ALL, params)), "a list of schedules")

    @ApiStream
    def list(self, limit: int | None = None) -> Stream[models.ScheduleSummary]:
        """Yield the schedules by name, at most `limit`; pages are read as needed."""
        return list_entries(partial(Schedules.page, self), limit, models.ScheduleSummary)

    @answers(models.ScheduleView)
    def get(self, name: str) -> Call[dict[str, Any]]:
        """Read a schedule, with the next five due times and the last ten results."""
        return as_object((yield from get(_path(name))), "a schedule")

    @answers(models.ScheduleView)
    def edit(
        self, name: str, *, reason: str | None = None, **changes: Unpack[ScheduleChanges]
    ) -> Call[dict[str, Any]]:
        """Change a schedule: `client.schedules.edit("nightly", cron="0 3 * * *", end=None)`.

        What was started goes on, and a due time that has come stays due. `cron` takes the place of
        `every_s`, and the other way round.
        """
        body = encode_timing(changes, keep_none=True)
        if (submission := changes.get("submission")) is not None:
            body["submission"] = yield from with_uploads(encode_fields(submission))
        return as_object((yield from act("PATCH", _path(name), body, reason=reason)), "a schedule")

    @answers(models.ScheduleView)
    def pause(self, name: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Pause a schedule: what is due does not start. What was started goes on."""
        return (yield from _ask(name, "pause", reason))

    @answers(models.ScheduleView)
    def resume(self, name: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Resume a paused schedule; what was due meanwhile does not start."""
        return (yield from _ask(name, "resume", reason))

    @answers(models.ResultView)
    def run(self, name: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Start now what a schedule starts, paused or not, whatever else runs.

        `job_id` of the result is the job or group. Sent once: look at `results` after
        `UnreachableError`.
        """
        path = f"{_path(name)}/run"
        return as_object((yield from act("POST", path, reason=reason)), "a result")

    @ApiStream
    def backfill(
        self,
        name: str,
        first: Moment,
        last: Moment,
        *,
        check: bool = False,
        reason: str | None = None,
    ) -> Stream[models.Backfilled]:
        """Start what a schedule starts for each due time from `first` to `last`, at most 500.

        Both are in the past. A due time that has a job of the schedule is left as it is, so that it
        may be asked for again. Yields the answer to each request; the last has `left` 0, unless the
        API makes no progress. With `check` nothing starts, and `left` is how many times are due.
        """
        body: dict[str, Any] = {"from": rfc3339("first", first), "to": rfc3339("last", last)}
        if check:
            body["check"] = True
        before: int | None = None
        while True:
            answer = as_object(
                (yield from act("POST", f"{_path(name)}/backfill", body, reason=reason)),
                "a backfill",
            )
            yield Item(models.Backfilled(answer))
            left = answer.get("left") or 0
            if check or not left or (before is not None and left >= before):
                return
            before = left

    @answers(models.ResultPage)
    def results_page(
        self, name: str, *, limit: int = LIST_MAX, cursor: str | None = None
    ) -> Call[dict[str, Any]]:
        """Read one page of what became of due times, the newest first."""
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None}
        return as_object((yield from get(f"{_path(name)}/results", params)), "a list of results")

    @ApiStream
    def results(self, name: str, limit: int | None = None) -> Stream[models.ResultView]:
        """Yield what became of due times, the newest first, at most `limit`."""
        read = partial(Schedules.results_page, self, name)
        return list_entries(read, limit, models.ResultView)

    @ApiCall
    def delete(self, name: str, *, reason: str | None = None) -> Call[None]:
        """Delete a schedule; what it started goes on."""
        yield from act("DELETE", _path(name), reason=reason)


def encode_timing(fields: Mapping[str, Any], *, keep_none: bool = False) -> dict[str, Any]:
    """Return the fields of a schedule as the API takes them; None is left out unless it is kept.

    Raises `InputError` for a time or a duration that is none.
    """
    made: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None:
            if keep_none:
                made[name] = None
        elif name in DURATIONS:
            length = seconds(name, value)
            made[name] = int(length) if length == int(length) else length
        else:
            made[name] = rfc3339(name, value) if name in MOMENTS else value
    return made


def _ask(name: str, command: str, reason: str | None) -> Call[dict[str, Any]]:
    path = f"{_path(name)}/{command}"
    return as_object((yield from act("POST", path, reason=reason)), "a schedule")


def _path(name: str) -> str:
    return f"{_ALL}/{segment(name, 'name of a schedule')}"
