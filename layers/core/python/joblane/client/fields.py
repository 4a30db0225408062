"""What calls take: the fields of a submission, the filters of lists, times and durations.

Mappings are TypedDicts, so that a type checker refuses a field that does not exist; the API does
too. `encode_fields` and `encode_filters` write them as the API takes them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict

from joblane.client.errors import InputError
from joblane.client.files.models import Input, StandardInput
from joblane.handler.job_type import JobType

Command: TypeAlias = list[str] | tuple[str, ...]
"""A program and its arguments. Not any Sequence of strings: a string is one itself."""

Moment: TypeAlias = str | datetime
"""A datetime with a time zone, or RFC 3339 in UTC such as `2026-11-21T02:00:00Z`."""

Seconds: TypeAlias = float | timedelta
"""A number of seconds, or a timedelta."""

MOMENTS = ("run_at", "deadline", "since", "until")
DURATIONS = ("timeout_s", "heartbeat_timeout_s", "reply_timeout_s")


class Resources(TypedDict, total=False):
    """Limits of one attempt."""

    cpus: float | None
    """CPU bandwidth: 0.5 is half of one core."""
    memory_mb: int | None
    """Memory in MiB."""
    pids: int | None
    """Maximum number of processes and threads."""
    cores: str | None
    """Cores to run on, such as `0-2,5`."""
    io_bps: int | None
    """Bytes a second read from and written to the device behind the work directory, each."""
    tmp_mb: int | None
    """Size of /tmp and of the work directory together in MiB, a part of the memory."""
    disk_mb: int | None
    """Size of the work directory in MiB, on the instance's disk instead of in memory."""


class Retry(TypedDict, total=False):
    """Number of attempts, and the waits between them."""

    max_attempts: int
    backoff_s: Sequence[Seconds]
    """Upper bound of the wait after each attempt; the last one repeats."""


class ExitCodes(TypedDict, total=False):
    """What exit codes of a job mean that otherwise are ordinary failures."""

    permanent: Sequence[int]
    """After one of these codes the job fails, and is not tried again."""
    blocked: Sequence[int]
    """After one of these codes the job waits for the condition that it has named, else for the
    first of its `requires`, else for `app:` and its queue's name."""
    skipped: Sequence[int]
    """After one of these codes the job is skipped: it does not apply where it ran."""


class Concurrency(TypedDict, total=False):
    """A key with its limits."""

    key: Required[Sequence[str | float]]
    """Strings, numbers and booleans that name the key, such as `["customer", "acme"]`."""
    max_active: int
    """Jobs of the key that have a slot at once."""
    max_queued: int
    """Jobs that wait for a slot."""
    when_full: Literal["reject", "coalesce", "replace-oldest"]
    stale_policy: Literal["fail-stale", "block"]


class Notify(TypedDict, total=False):
    """Whom to notify when a job ends, blocks or starts: one of `url`, `sns` and `eventbridge`."""

    url: str
    """URL that gets a signed POST."""
    sns: str
    """ARN of an SNS topic."""
    eventbridge: Literal[True]
    """An event on the account's default EventBridge bus."""
    on: Sequence[str]
    """Events to notify about, such as `started`, `retry`, `waiting` and `released`; by default
    every end except `dismissed`, and `blocked`."""
    members: bool
    """Of an array, or a target of several agents: whether to notify of each job as well."""


class DeadFilters(TypedDict, total=False):
    """Which dead jobs to select; all must match."""

    name: str | None
    type: str | None
    queue: str | None
    label: str | Sequence[str] | None
    """All of these labels, each `key=value`."""
    labels: Mapping[str, str] | None
    """All of these labels, in place of `label` or besides it."""
    since: Moment | None
    """Submitted at or after this time."""
    until: Moment | None
    """Submitted before this time."""
    hidden: bool
    """Include hidden jobs."""


class Filters(DeadFilters, total=False):
    """Which jobs to list; all must match. Those of `DeadFilters`, and these."""

    state: str | Sequence[str] | None
    """One of these states."""
    groups: bool
    """Only groups: arrays, and jobs that have a job for each agent of their target."""


class Array(TypedDict, total=False):
    """Which jobs a submission makes, up to 10,000: `size`, a range, or `values`."""

    size: int
    """Number of jobs, with the indices 0 to `size - 1`."""
    first: int
    """First index of a range, with `last`."""
    last: int
    """Last index of the range; it is one of them if the steps meet it."""
    step: int
    """From one index of the range to the next, 1 by default."""
    values: Sequence[Any]
    """A value for each job, any JSON, together at most 262,144 bytes. With a type each is the
    params of its job, of a handler its model."""


class JobFields(TypedDict, total=False):
    """Fields of a submission besides its command and `array`, see `SubmissionFields`."""

    name: str | None
    """Up to 128 printable characters, to find the job by."""
    queue: str | None
    priority: Literal["high", "default", "low"] | None
    resources: Resources | None
    network: Literal["none", "egress", "host"] | None
    env: Mapping[str, str] | None
    secret_env: Mapping[str, str] | None
    """Variables and names of secrets, such as `ssm:/joblane/main/db`; the agent reads their
    values when the job starts."""
    mask_secrets: bool | None
    """Whether `***` stands in place of these values in what the job writes and says."""
    merge_stderr: bool | None
    """Whether the job's standard error is a part of its standard output, in exact order."""
    inputs: Sequence[Input] | None
    """Files and directories here, each a path or (path here, path of the job), or files that
    `client.files.put` has uploaded; a job finds them in its work directory."""
    outputs: Sequence[str] | None
    """Globs of the files in the work directory that are collected after each attempt."""
    stdin: StandardInput | None
    """Standard input: text, bytes, the path of a file, or an open file."""
    stdin_file: str | None
    """SHA-256 of an uploaded file that is the standard input."""
    timeout_s: Seconds | None
    """Time limit of one attempt."""
    heartbeat_timeout_s: Seconds | None
    """An attempt that sends nothing on its line (descriptor 3) for so long is stopped."""
    restartable: bool | None
    retry: Retry | None
    exit_codes: ExitCodes | None
    """Codes that end the job for good, and codes that say that it waits for a condition."""
    labels: Mapping[str, str] | None
    items: int | None
    """Number of work items in this job, for queue statistics."""
    run_at: Moment | None
    """Earliest start time."""
    deadline: Moment | None
    """The job expires when it has not ended by then."""
    requires: Sequence[str] | None
    """Conditions that must hold before the job starts."""
    concurrency: str | Concurrency | None
    """Limit of jobs that run at once with the same key, or the name of a policy of joblane.toml."""
    target: str | None
    """The agents that it is for: `_any`, `_all`, `host:NAME`, or a label such as `group:web.dev`.
    With `_all` or a label the job becomes a group of jobs, one for each agent."""
    reply_timeout_s: Seconds | None
    """Time within which an agent of the target must start the job, 60 by default."""
    max_concurrency: int | None
    """Most jobs of a group that are begun at once."""
    max_failures: int | None
    """If more jobs of a group fail, no further ones are begun."""
    tolerate: int | str | None
    """How many jobs of a group may fail, a number or a share such as `5 %`, so that it is completed
    all the same."""
    notify: Notify | None
    """Whom to notify when the job ends or blocks."""
    traceparent: str | None
    """W3C trace context that the job belongs to, in place of the caller's own."""
    tracestate: str | None
    """What comes with `traceparent`."""


class SubmissionFields(JobFields, total=False):
    """Fields of a submission besides its command; None and missing ones get the API's default.

    A test compares the names, and those of the mappings in them, with `joblane.job.spec`, whose
    models validate them.
    """

    array: Array | None
    """Makes a group of jobs, one for each index: `{"size": 100}`, `{"first": 1, "last": 99,
    "step": 2}`, or `{"values": [...]}`."""


class EditFields(TypedDict, total=False):
    """Fields of a job that waits, to be changed; what is left out stays as it is.

    A test compares the names with `joblane.contract.edits`, whose model validates them.
    """

    queue: str
    """The queue that the job is to wait in."""
    priority: Literal["high", "default", "low"]
    """The lane of the queue."""
    deadline: Moment | None
    """Latest end time; None removes it."""
    labels: Mapping[str, str | None] | None
    """Labels to add or change; one that is None is removed, and None removes all."""
    resources: Resources | None
    """Limits to change; one that is None is the default again, and None makes all so."""
    timeout_s: Seconds
    """Time limit of one attempt."""


class Submission(SubmissionFields, total=False):
    """A job: `command`, or `type` with `params`, and the other fields of a submission."""

    command: Command
    type: str
    """The name of a job type, in place of a command."""
    params: Mapping[str, Any]
    """Parameters of the type."""


def job_fields(what: object, params: object = None) -> Mapping[str, Any]:
    """Return the command, or the type and its params, of a submission. Raises `InputError`."""
    if isinstance(what, JobType):
        try:
            return {"type": what.name, "params": what.dump_params(params)}
        except (TypeError, ValueError) as error:
            raise InputError(str(error)) from error
    if params is None:
        return {"command": command_words(what)}
    if not isinstance(what, str):
        raise InputError("params are for a type; a command has its arguments")
    if not isinstance(params, Mapping):
        raise InputError("the params of a type that is named must be a mapping")
    return {"type": what, "params": dict(params)}


def array_fields(what: object, params: object, array: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `job_fields` does, and the array, whose values are the params of a type.

    Raises `InputError`, which names the index of a value that a handler does not take.
    """
    values = array.get("values")
    if values is not None and not isinstance(values, list | tuple):
        raise InputError("array.values must be a list")
    if values is None or params is not None or not isinstance(what, JobType | str):
        return {**job_fields(what, params), "array": array}
    if isinstance(what, str):
        return {"type": what, "array": array}
    dumped = []
    for index, value in enumerate(values):
        try:
            dumped.append(what.dump_params(value))
        except (TypeError, ValueError) as error:
            raise InputError(f"array.values.{index}: {error}") from error
    return {"type": what.name, "array": {**array, "values": dumped}}


def command_words(command: object) -> list[str]:
    """Return the words of a command. Raises `InputError` for one that is no list or tuple."""
    if isinstance(command, list | tuple):
        return list(command)
    raise InputError(
        'the command must be a list of words, such as ["echo", "hello"], or for a shell '
        '["sh", "-c", "..."]; a type needs params'
    )


def rfc3339(name: str, moment: object) -> str:
    """Write the time `name` as the API takes it. Raises `InputError`."""
    if isinstance(moment, str):
        return moment
    if not isinstance(moment, datetime):
        raise InputError(
            f"{name} must be a datetime with a time zone, or a time in UTC such as "
            f"2026-11-21T02:00:00Z; not a {type(moment).__name__}"
        )
    if moment.utcoffset() is None:
        raise InputError(
            f"{name} has no time zone: use datetime.now(timezone.utc), or .astimezone() if it is "
            "the local time"
        )
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError as error:
        raise InputError(f"{name} is not a time in UTC: {error}") from error


def seconds(name: str, duration: object) -> float:
    """Return the duration `name` in seconds. Raises `InputError`."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        return duration
    raise InputError(
        f"{name} must be a number of seconds or a timedelta; not a {type(duration).__name__}"
    )


def encode_edit(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an edit as the API takes them; None stays, as it removes something.

    Raises `InputError` for a time or a duration that is none.
    """
    return {**changes, **_encode_times(changes)}


def encode_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a submission that are not None, as the API takes them.

    Raises `InputError` for a time or a duration that is none.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    given |= _encode_times(given)
    retry = given.get("retry")
    if isinstance(retry, Mapping) and isinstance(backoff := retry.get("backoff_s"), list | tuple):
        name = "retry.backoff_s"
        given["retry"] = {**retry, "backoff_s": [seconds(name, each) for each in backoff]}
    return given


def _encode_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times and durations among the fields that are not None, as the API takes them."""
    given = {name: value for name, value in fields.items() if value is not None}
    times = {name: rfc3339(name, given[name]) for name in MOMENTS if name in given}
    return times | {name: seconds(name, given[name]) for name in DURATIONS if name in given}


def encode_filters(filters: Mapping[str, Any]) -> dict[str, str | Sequence[str]]:
    """Return the filters that are on, as parameters of a request. Raises `InputError`."""
    given = {
        name: "true" if value is True else value
        for name, value in encode_fields(filters).items()
        if value is not False
    }
    labels = given.pop("labels", None)
    if labels is None:
        return given
    if not isinstance(labels, Mapping):
        raise InputError('labels must be a mapping, such as {"team": "web"}')
    label = given.get("label", ())
    named = [label] if isinstance(label, str) else list(label)
    named += [f"{key}={value}" for key, value in labels.items()]
    return {**given, "label": named} if named else given
