"""What the API answers, as objects. Written by `scripts/reference`; do not edit it.

The names are those of the OpenAPI document. Times are RFC 3339 in UTC, durations seconds (`_s`) or
milliseconds (`_ms`). A text of a list, such as a state, may be newer than this version.
"""

# ruff: noqa: D205 - the descriptions are those of the API's models

from __future__ import annotations

from typing import Any

from joblane.client.answer import Answer


class Limits(Answer):
    """The limits of each attempt: what was asked for, the type's, or the default."""

    memory_mb: int
    """Memory in MiB, 512 by default. An agent with isolation `namespaces` cannot limit it, and runs
    only jobs that ask for none."""
    cpus: float | None
    """CPU bandwidth in cores; null: running jobs share the cores equally."""
    cores: str | None
    """Cores to run on; null: any."""
    pids: int
    """Processes and threads, 1024 by default."""
    io_bps: int | None
    """Bytes a second read from and written to the disk, each; null: no limit."""
    tmp_mb: int
    """Size of /tmp in MiB, and with it of the work directory unless `disk_mb` is set: 256 by
    default, and at most half of the memory."""
    disk_mb: int | None
    """Size of the work directory in MiB, if it is on the instance's disk."""


class Progress(Answer):
    """What a running attempt reported last."""

    percent: float | None
    """From 0 to 100."""
    message: str | None
    """Up to 200 characters."""
    step: str | None
    """Which part of its work it is at, up to 60 characters."""
    current: int | None
    """How much of `total` it has done."""
    total: int | None
    """How much there is to do; null if it did not say."""
    at: str
    """When it was reported."""


class Stats(Answer):
    """What a running attempt uses, as of its agent's last heartbeat."""

    cpus: float
    """CPUs in use on average since the heartbeat before, about 10 s."""
    memory_mb: int
    """Memory in MiB, rounded up; without a cgroup, the sum of what its processes have resident."""
    at: str
    """When its agent read it."""


class SkippedFile(Answer):
    """A path that a glob of `outputs` matched and that was not collected."""

    path: str
    """Path below the work directory; control characters are replaced."""
    why: str
    """Why: it is a link, for example."""


class KeyOfJob(Answer):
    """The key of a job; `GET /v1/keys/{type}/{id}` shows its jobs."""

    type: str
    """The job type; `command` for a key that a submission writes out, `policy.NAME` for one of
    joblane.toml."""
    id: str
    """32 hexadecimal digits, which stand for its segments."""


class WhoView(Answer):
    """A caller, as the API shows it."""

    kind: str
    """A person or a machine."""
    subject: str
    """Subject of the token: unique and never reused."""
    name: str
    """Name for people."""


class Transition(Answer):
    """One entry of a job's timeline."""

    state: str
    """State after the transition."""
    at: str
    """RFC 3339, UTC, milliseconds."""
    attempt: int
    """Number of the attempt."""
    reason: str
    """Why: a sentence."""
    agent: str | None
    """The agent that made it, if one did."""
    version: int | None
    """Version of its type that the job had then, which an attempt ran; null for commands and
    built-in types."""


class ResourcesView(Answer):
    """Limits of one attempt. A host that cannot apply one leaves the job to another agent."""

    cpus: float | None
    """CPU bandwidth: 0.5 is half of one core. Without it, running jobs share the cores equally."""
    memory_mb: int | None
    """Memory in MiB, 512 by default; a job that exceeds it is killed."""
    pids: int | None
    """Maximum number of processes and threads, 1024 by default."""
    cores: str | None
    """Cores to run on, such as `0-2,5`. An agent that lacks one of them does not run the job;
    `[fleets.NAME.max] cores` refuses such a job when it is submitted."""
    io_bps: int | None
    """Bytes a second read from and written to the device behind the work directory, each."""
    tmp_mb: int | None
    """Size of /tmp and of the work directory together, a part of the memory; 256 by default, and at
    most half of the memory."""
    disk_mb: int | None
    """Size of the work directory in MiB, on the instance's disk instead of in memory. It has a
    limit of its own then, and `tmp_mb` is that of /tmp alone."""


class InputFileView(Answer):
    """A file that is placed in the work directory before an attempt starts."""

    path: str
    """Path below the work directory: relative and normalized, at most 1,024 bytes."""
    sha256: str
    """SHA-256 of its content, in hexadecimal digits. The file is uploaded before (`POST
    /v1/files`)."""
    mode: str
    """Permissions in octal; no setuid, setgid or sticky bit."""


class RetryView(Answer):
    """Number of attempts, and the waits between them."""

    max_attempts: int
    """Maximum number of attempts."""
    backoff_s: list[float]
    """Upper bound of the wait after each attempt, with full jitter; the last one repeats. At most
    12 h, the limit of SQS."""


class ExitCodesView(Answer):
    """What exit codes of the job mean that otherwise are ordinary failures."""

    permanent: list[int]
    """After one of these codes the job fails, and is not tried again."""
    blocked: list[int]
    """After one of these codes the job waits for the condition that it has named on its line, else
    for the first of its `requires`, else for `app:` and its queue's name."""
    skipped: list[int]
    """After one of these codes the job is skipped: it does not apply where it ran."""


class ConcurrencyView(Answer):
    """A key of constants with its limits, in a submission."""

    max_active: int
    """Jobs of a key that have a slot at once; a job has it up to its end, through retries."""
    max_queued: int
    """Jobs that wait for a slot. A job is accepted while `active + queued` is less than `max_active
    + max_queued`."""
    when_full: str
    """What happens to another job: `reject` it, `coalesce` it with one that is there, or
    `replace-oldest`, which skips the first one that waits, else one that has not started."""
    stale_policy: str
    """What happens to a job whose agent was lost. `block`: another agent runs it again, in the same
    slot. `fail-stale`: it ends as stale if another job waits for the slot."""
    key: list[bool | str | int | float]
    """Strings, numbers and booleans that name the key, such as `["customer", "acme"]`."""


class ArrayView(Answer):
    """Which jobs a submission makes, one for each index: `size`, a range, or `values`."""

    size: int | None
    """Number of jobs, with the indices 0 to `size - 1`."""
    first: int | None
    """First index of a range, with `last`."""
    last: int | None
    """Last index of the range; it is one of them if the steps meet it."""
    step: int | None
    """With `first` and `last`: from one index to the next, 1 by default."""
    values: list[Any] | None
    """A value for each job, any JSON, together at most 262,144 bytes; the indices are 0, 1, 2 and
    so on. With a `type` each value is the params of its job."""


class NotifyView(Answer):
    """Whom to notify about a job: exactly one of `url`, `sns` and `eventbridge`."""

    url: str | None
    """URL that gets a signed POST (docs/reference/events.md), with `https://`, at most 1,000
    characters."""
    sns: str | None
    """ARN of an SNS topic that joblane.toml allows this tenant."""
    eventbridge: bool | None
    """An event on the account's default EventBridge bus."""
    on: list[str]
    """Events to notify about (docs/reference/events.md); by default every end except `dismissed`,
    and `blocked`."""
    members: bool
    """Of a group: whether to notify of these events of each of its jobs as well."""


class Submitted(Answer):
    """The answer to a submission."""

    id: str
    """The job's ULID."""
    tenant: str
    """The tenant that owns it."""
    state: str
    """Its state."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of the present or last attempt; 0 before the first."""
    epoch: int
    """Number of claims so far."""
    edit: int
    """Number of changes of its submission so far: edits (`PATCH /v1/jobs/{job_id}`), and restarts
    with another version of its type."""
    outcome: str | None
    """How the last attempt that has ended did so; null before, and after a retry or replay."""
    exit_code: int | None
    """Exit code of the attempt that `outcome` is of; null if a signal ended it."""
    signal: int | None
    """Signal that ended that attempt."""
    limits: Limits
    """The limits that apply; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    """CPU, memory and I/O of that attempt."""
    agent: str | None
    """Agent of the present or last attempt; null after a retry or replay."""
    progress: Progress | None
    """What the running attempt reported last, up to 10 s ago. Only `GET /v1/jobs/{id}` shows it."""
    stats: Stats | None
    """What the running attempt uses, up to 10 s ago; null while its agent has not said it. Only
    `GET /v1/jobs/{id}` shows it."""
    result: Any
    """The result of a completed job, any JSON. Only `GET /v1/jobs/{id}` shows it."""
    output_files: dict[str, Any] | None
    """The files that the newest attempt with `outputs` left: how many, and which globs matched
    none. `GET /v1/jobs/{id}/outputs` lists them."""
    condition: str | None
    """Condition that a blocked job waits for."""
    assigned: str | None
    """Name of the only agent that may run it; null for jobs of a lane."""
    group: str | None
    """Id of the group that it is a member of; null for most jobs."""
    index: int | None
    """Of a member of a group its index there: in an array what `JOBLANE_ARRAY_INDEX` says, in a
    broadcast its number in the order of the agents' names; null for other jobs."""
    value: Any
    """Of a member of an array with values its value. Only `GET /v1/jobs/{id}` shows it."""
    members: int | None
    """Number of members of a group; null for a job, and for a group whose members are not chosen
    yet."""
    key: KeyOfJob | None
    """The key that limits how many jobs run at once with it; null for most jobs."""
    slot: int | None
    """Number of its slot of that key, which rises with each slot that is given; null while it waits
    for one."""
    submitted_by: WhoView | None
    """Who submitted it; of a job that a schedule started, who created that."""
    schedule: str | None
    """Name of the schedule that started it, or its group; null for other jobs."""
    scheduled_at: str | None
    """The due time of that schedule that it was started for, `JOBLANE_SCHEDULED_AT`."""
    type_version: int | None
    """Version of its type that it runs with: that of its submission, or of its last retry or
    replay. null for commands and built-in types."""
    cancel_requested: str | None
    """Why the running attempt was asked to stop."""
    hidden: bool
    """Whether lists leave the job out."""
    resubmit_of: str | None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt since its submission, or since it was last retried or replayed."""
    ended_at: str | None
    """Time when it ended."""
    next_at: str | None
    """Time of the next attempt, or the earliest start."""
    timeline: list[Transition]
    """Transitions, oldest first. Of a long timeline the first and the last; the reason of an entry
    in between says how many it stands for."""
    abridged: bool
    """Whether `command`, `env`, `params` and the values of an `array` are cut short here, or left
    out; `GET /v1/jobs/{id}` shows them whole."""
    name: str | None
    """Name for people; several jobs may have the same one."""
    type: str | None
    """A job type instead of a command."""
    params: dict[str, Any] | None
    """Parameters of the type: a JSON object that its JSON Schema allows, at most 262,144 bytes."""
    command: list[str]
    """What runs: as submitted, or the command of a built-in type; empty for other types."""
    queue: str
    """The queue. Without it the filters of the queues choose, and if none is true it is the
    deployment's default queue."""
    priority: str
    """The lane of the queue."""
    resources: ResourcesView
    """Limits of one attempt."""
    network: str
    """`none`: loopback only. `egress`: the internet. `host`: the instance's network."""
    env: dict[str, str]
    """Environment variables."""
    secret_env: dict[str, str]
    """Variables and names of secrets; the agent reads the values when an attempt starts."""
    mask_secrets: bool
    """Whether `***` stands in place of these values, line by line from 8 bytes on, in the job's
    output, result, progress and error. false for what has them by chance, such as binary data."""
    merge_stderr: bool
    """Whether the job's standard error is its standard output: all is `stdout` then, in the exact
    order in which it was written. Of two streams only the order within each is known."""
    stdin: str | None
    """Text that the job reads from its standard input, at most 262,144 bytes; empty without it."""
    stdin_file: str | None
    """The SHA-256 of an uploaded file that the job reads from its standard input instead."""
    inputs: list[InputFileView]
    """Files that are placed in the work directory before each attempt, at most 1,000. They are
    uploaded before the job is submitted (`POST /v1/files`)."""
    outputs: list[str]
    """Globs of files in the work directory that are collected after each attempt, at most 20, such
    as `out/**`; `*`, `?` and `[a-z]` match within a name, `**` any number of directories. A
    directory means all files below it."""
    timeout_s: float
    """Time limit of one attempt: its processes get SIGTERM then, and SIGKILL 10 s later."""
    heartbeat_timeout_s: float | None
    """An attempt that sends nothing to its agent (descriptor 3) for this many seconds is stopped,
    as by `timeout_s`."""
    restartable: bool
    """false: never started twice, even if its agent fails."""
    retry: RetryView
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodesView
    """What exit codes of the job mean; any code but 0 is an ordinary failure otherwise. 75 of a job
    that has `requires`, or named a condition on its line, means that it waits."""
    labels: dict[str, str]
    """Labels to find jobs by."""
    items: int
    """Number of work items in this job, for queue statistics. A type may count them in the params;
    it is left out then."""
    run_at: str | None
    """Earliest start time; a time in the past means now."""
    deadline: str | None
    """Latest end time: a job that has not started by then expires, a running job gets SIGTERM, and
    SIGKILL 10 s later."""
    requires: list[str]
    """Conditions that must hold before the job starts."""
    concurrency: ConcurrencyView | str | None
    """Limits how many jobs with the same key run at once: a key of constants with its limits, or
    the name of a policy of joblane.toml."""
    array: ArrayView | None
    """Makes a group of up to 10,000 jobs, one for each index: each has its own in
    `JOBLANE_ARRAY_INDEX`, and their number in `JOBLANE_ARRAY_SIZE`. With `values` each has its own
    in `JOBLANE_ARRAY_VALUE`: a text as it is, anything else as JSON."""
    target: str | None
    """The agents that it is for, of those that serve its queue: `_any` of them (as without it),
    `_all`, `host:NAME` (or `NAME` alone, unless it may mean a label), or those with a label, such
    as `group:web.dev`. With `_all` or a label the job becomes a group of jobs, one for each agent
    that matches when it starts."""
    reply_timeout_s: float | None
    """With a target: seconds that an agent has to start the job (60 by default); otherwise the job
    fails."""
    max_concurrency: int | None
    """Of a group: maximum number of its jobs that run at once. An array with more than 1,000 jobs
    gets 1,000; without it all start at once."""
    max_failures: int | None
    """Of a group with `max_concurrency`: no further jobs begin after more failures than this. Those
    that have begun, up to `max_concurrency` of them, still run."""
    tolerate: int | str | None
    """Of a group: how many of its jobs may fail, a number or a share such as `5 %`, so that it is
    `completed` all the same; none without it."""
    notify: NotifyView | None
    """Whom to notify when the job ends or blocks, or of the events that `on` names; without it,
    whom joblane.toml names for its queue. Of a group, the group itself is what they are notified
    about, and with `members` each of its jobs as well."""
    traceparent: str | None
    """W3C trace context that the job belongs to: `00-<trace-id>-<parent-id>-<flags>`. Without it
    that of the request's header, and without that one is made; so also if it is invalid."""
    tracestate: str | None
    """What comes with `traceparent`; invalid or missing without it, it is left out."""
    admission: str
    """`accepted`: this is the new job. `replaced`: it is, and it took the place of another one.
    `coalesced`: no job was made, because the key is full; this job of the key stands for it."""
    replaced: str | None
    """Id of the job that it replaced, which is skipped."""
    warning: str | None
    """Why no live agent can serve the job now, in a sentence: none takes jobs of its queue, or none
    can give what it asks for. The job is accepted and waits. null if one can."""


class Job(Answer):
    """A job as the API answers it: its fields as submitted, and its progress."""

    id: str
    """The job's ULID."""
    tenant: str
    """The tenant that owns it."""
    state: str
    """Its state."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of the present or last attempt; 0 before the first."""
    epoch: int
    """Number of claims so far."""
    edit: int
    """Number of changes of its submission so far: edits (`PATCH /v1/jobs/{job_id}`), and restarts
    with another version of its type."""
    outcome: str | None
    """How the last attempt that has ended did so; null before, and after a retry or replay."""
    exit_code: int | None
    """Exit code of the attempt that `outcome` is of; null if a signal ended it."""
    signal: int | None
    """Signal that ended that attempt."""
    limits: Limits
    """The limits that apply; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    """CPU, memory and I/O of that attempt."""
    agent: str | None
    """Agent of the present or last attempt; null after a retry or replay."""
    progress: Progress | None
    """What the running attempt reported last, up to 10 s ago. Only `GET /v1/jobs/{id}` shows it."""
    stats: Stats | None
    """What the running attempt uses, up to 10 s ago; null while its agent has not said it. Only
    `GET /v1/jobs/{id}` shows it."""
    result: Any
    """The result of a completed job, any JSON. Only `GET /v1/jobs/{id}` shows it."""
    output_files: dict[str, Any] | None
    """The files that the newest attempt with `outputs` left: how many, and which globs matched
    none. `GET /v1/jobs/{id}/outputs` lists them."""
    condition: str | None
    """Condition that a blocked job waits for."""
    assigned: str | None
    """Name of the only agent that may run it; null for jobs of a lane."""
    group: str | None
    """Id of the group that it is a member of; null for most jobs."""
    index: int | None
    """Of a member of a group its index there: in an array what `JOBLANE_ARRAY_INDEX` says, in a
    broadcast its number in the order of the agents' names; null for other jobs."""
    value: Any
    """Of a member of an array with values its value. Only `GET /v1/jobs/{id}` shows it."""
    members: int | None
    """Number of members of a group; null for a job, and for a group whose members are not chosen
    yet."""
    key: KeyOfJob | None
    """The key that limits how many jobs run at once with it; null for most jobs."""
    slot: int | None
    """Number of its slot of that key, which rises with each slot that is given; null while it waits
    for one."""
    submitted_by: WhoView | None
    """Who submitted it; of a job that a schedule started, who created that."""
    schedule: str | None
    """Name of the schedule that started it, or its group; null for other jobs."""
    scheduled_at: str | None
    """The due time of that schedule that it was started for, `JOBLANE_SCHEDULED_AT`."""
    type_version: int | None
    """Version of its type that it runs with: that of its submission, or of its last retry or
    replay. null for commands and built-in types."""
    cancel_requested: str | None
    """Why the running attempt was asked to stop."""
    hidden: bool
    """Whether lists leave the job out."""
    resubmit_of: str | None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt since its submission, or since it was last retried or replayed."""
    ended_at: str | None
    """Time when it ended."""
    next_at: str | None
    """Time of the next attempt, or the earliest start."""
    timeline: list[Transition]
    """Transitions, oldest first. Of a long timeline the first and the last; the reason of an entry
    in between says how many it stands for."""
    abridged: bool
    """Whether `command`, `env`, `params` and the values of an `array` are cut short here, or left
    out; `GET /v1/jobs/{id}` shows them whole."""
    name: str | None
    """Name for people; several jobs may have the same one."""
    type: str | None
    """A job type instead of a command."""
    params: dict[str, Any] | None
    """Parameters of the type: a JSON object that its JSON Schema allows, at most 262,144 bytes."""
    command: list[str]
    """What runs: as submitted, or the command of a built-in type; empty for other types."""
    queue: str
    """The queue. Without it the filters of the queues choose, and if none is true it is the
    deployment's default queue."""
    priority: str
    """The lane of the queue."""
    resources: ResourcesView
    """Limits of one attempt."""
    network: str
    """`none`: loopback only. `egress`: the internet. `host`: the instance's network."""
    env: dict[str, str]
    """Environment variables."""
    secret_env: dict[str, str]
    """Variables and names of secrets; the agent reads the values when an attempt starts."""
    mask_secrets: bool
    """Whether `***` stands in place of these values, line by line from 8 bytes on, in the job's
    output, result, progress and error. false for what has them by chance, such as binary data."""
    merge_stderr: bool
    """Whether the job's standard error is its standard output: all is `stdout` then, in the exact
    order in which it was written. Of two streams only the order within each is known."""
    stdin: str | None
    """Text that the job reads from its standard input, at most 262,144 bytes; empty without it."""
    stdin_file: str | None
    """The SHA-256 of an uploaded file that the job reads from its standard input instead."""
    inputs: list[InputFileView]
    """Files that are placed in the work directory before each attempt, at most 1,000. They are
    uploaded before the job is submitted (`POST /v1/files`)."""
    outputs: list[str]
    """Globs of files in the work directory that are collected after each attempt, at most 20, such
    as `out/**`; `*`, `?` and `[a-z]` match within a name, `**` any number of directories. A
    directory means all files below it."""
    timeout_s: float
    """Time limit of one attempt: its processes get SIGTERM then, and SIGKILL 10 s later."""
    heartbeat_timeout_s: float | None
    """An attempt that sends nothing to its agent (descriptor 3) for this many seconds is stopped,
    as by `timeout_s`."""
    restartable: bool
    """false: never started twice, even if its agent fails."""
    retry: RetryView
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodesView
    """What exit codes of the job mean; any code but 0 is an ordinary failure otherwise. 75 of a job
    that has `requires`, or named a condition on its line, means that it waits."""
    labels: dict[str, str]
    """Labels to find jobs by."""
    items: int
    """Number of work items in this job, for queue statistics. A type may count them in the params;
    it is left out then."""
    run_at: str | None
    """Earliest start time; a time in the past means now."""
    deadline: str | None
    """Latest end time: a job that has not started by then expires, a running job gets SIGTERM, and
    SIGKILL 10 s later."""
    requires: list[str]
    """Conditions that must hold before the job starts."""
    concurrency: ConcurrencyView | str | None
    """Limits how many jobs with the same key run at once: a key of constants with its limits, or
    the name of a policy of joblane.toml."""
    array: ArrayView | None
    """Makes a group of up to 10,000 jobs, one for each index: each has its own in
    `JOBLANE_ARRAY_INDEX`, and their number in `JOBLANE_ARRAY_SIZE`. With `values` each has its own
    in `JOBLANE_ARRAY_VALUE`: a text as it is, anything else as JSON."""
    target: str | None
    """The agents that it is for, of those that serve its queue: `_any` of them (as without it),
    `_all`, `host:NAME` (or `NAME` alone, unless it may mean a label), or those with a label, such
    as `group:web.dev`. With `_all` or a label the job becomes a group of jobs, one for each agent
    that matches when it starts."""
    reply_timeout_s: float | None
    """With a target: seconds that an agent has to start the job (60 by default); otherwise the job
    fails."""
    max_concurrency: int | None
    """Of a group: maximum number of its jobs that run at once. An array with more than 1,000 jobs
    gets 1,000; without it all start at once."""
    max_failures: int | None
    """Of a group with `max_concurrency`: no further jobs begin after more failures than this. Those
    that have begun, up to `max_concurrency` of them, still run."""
    tolerate: int | str | None
    """Of a group: how many of its jobs may fail, a number or a share such as `5 %`, so that it is
    `completed` all the same; none without it."""
    notify: NotifyView | None
    """Whom to notify when the job ends or blocks, or of the events that `on` names; without it,
    whom joblane.toml names for its queue. Of a group, the group itself is what they are notified
    about, and with `members` each of its jobs as well."""
    traceparent: str | None
    """W3C trace context that the job belongs to: `00-<trace-id>-<parent-id>-<flags>`. Without it
    that of the request's header, and without that one is made; so also if it is invalid."""
    tracestate: str | None
    """What comes with `traceparent`; invalid or missing without it, it is left out."""


class JobPage(Answer):
    """A page of jobs, newest first."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[Job]
    """The entries of this page."""


class Accepted(Answer):
    """Entry of a batch that became a job, or was coalesced with one."""

    status: int
    """202; 200 for an entry that was coalesced."""
    job: Submitted
    """The new job, or the one that stands for the entry."""


class FieldProblem(Answer):
    """One wrong field of a request."""

    field: str
    """Path to it, such as `retry.max_attempts` or `command.0`."""
    problem: str
    """What is wrong with it, and what is allowed."""


class NotAccepted(Answer):
    """Entry of a batch that did not become a job."""

    status: int
    """The status that a single submission would have."""
    detail: str
    """What is wrong."""
    errors: list[FieldProblem]
    """The fields that were refused."""
    reason: str | None
    """Of a key that is full: as in the answer to a single submission."""
    active: int | None
    """Of a key that is full: jobs with a slot."""
    queued: int | None
    """Of a key that is full: jobs that wait for one."""
    limit: str | int | None
    """Of a key that is full: `max_active + max_queued`. Of 429: the key of joblane.toml."""
    key: list[str | int | float] | None
    """Of a key that is full: its segments."""


class BatchAnswer(Answer):
    """The result of each entry of a batch, in its order."""

    entries: list[Accepted | NotAccepted]
    """One entry for each submission, in order."""


class QueueVerdict(Answer):
    """A queue, and whether it takes a job."""

    queue: str
    """The queue's name."""
    filter_order: int | None
    """Order of its filter; null without a filter."""
    filter: str | None
    """Its filter; null without one."""
    verdict: str
    """`takes`, or why not: `false` (the filter is false), `error` (it cannot be evaluated),
    `not_reached` (an earlier queue takes the job, or the submission names one), `no_filter` (it
    takes jobs by name only), `retired` (it takes no more jobs), `not_allowed` (the submission names
    it, and it is not a queue of this tenant)."""
    reason: str
    """The same as a sentence."""


class QueueChoice(Answer):
    """Which queue would take a job."""

    queue: str | None
    """The queue; null if none takes the job: then a submission is refused."""
    reason: str
    """Why."""
    entries: list[QueueVerdict]
    """The queues that the caller's tenant may use, in the order in which they are considered."""


class Edited(Answer):
    """A job after an edit."""

    id: str
    """The job's ULID."""
    tenant: str
    """The tenant that owns it."""
    state: str
    """Its state."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of the present or last attempt; 0 before the first."""
    epoch: int
    """Number of claims so far."""
    edit: int
    """Number of changes of its submission so far: edits (`PATCH /v1/jobs/{job_id}`), and restarts
    with another version of its type."""
    outcome: str | None
    """How the last attempt that has ended did so; null before, and after a retry or replay."""
    exit_code: int | None
    """Exit code of the attempt that `outcome` is of; null if a signal ended it."""
    signal: int | None
    """Signal that ended that attempt."""
    limits: Limits
    """The limits that apply; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    """CPU, memory and I/O of that attempt."""
    agent: str | None
    """Agent of the present or last attempt; null after a retry or replay."""
    progress: Progress | None
    """What the running attempt reported last, up to 10 s ago. Only `GET /v1/jobs/{id}` shows it."""
    stats: Stats | None
    """What the running attempt uses, up to 10 s ago; null while its agent has not said it. Only
    `GET /v1/jobs/{id}` shows it."""
    result: Any
    """The result of a completed job, any JSON. Only `GET /v1/jobs/{id}` shows it."""
    output_files: dict[str, Any] | None
    """The files that the newest attempt with `outputs` left: how many, and which globs matched
    none. `GET /v1/jobs/{id}/outputs` lists them."""
    condition: str | None
    """Condition that a blocked job waits for."""
    assigned: str | None
    """Name of the only agent that may run it; null for jobs of a lane."""
    group: str | None
    """Id of the group that it is a member of; null for most jobs."""
    index: int | None
    """Of a member of a group its index there: in an array what `JOBLANE_ARRAY_INDEX` says, in a
    broadcast its number in the order of the agents' names; null for other jobs."""
    value: Any
    """Of a member of an array with values its value. Only `GET /v1/jobs/{id}` shows it."""
    members: int | None
    """Number of members of a group; null for a job, and for a group whose members are not chosen
    yet."""
    key: KeyOfJob | None
    """The key that limits how many jobs run at once with it; null for most jobs."""
    slot: int | None
    """Number of its slot of that key, which rises with each slot that is given; null while it waits
    for one."""
    submitted_by: WhoView | None
    """Who submitted it; of a job that a schedule started, who created that."""
    schedule: str | None
    """Name of the schedule that started it, or its group; null for other jobs."""
    scheduled_at: str | None
    """The due time of that schedule that it was started for, `JOBLANE_SCHEDULED_AT`."""
    type_version: int | None
    """Version of its type that it runs with: that of its submission, or of its last retry or
    replay. null for commands and built-in types."""
    cancel_requested: str | None
    """Why the running attempt was asked to stop."""
    hidden: bool
    """Whether lists leave the job out."""
    resubmit_of: str | None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt since its submission, or since it was last retried or replayed."""
    ended_at: str | None
    """Time when it ended."""
    next_at: str | None
    """Time of the next attempt, or the earliest start."""
    timeline: list[Transition]
    """Transitions, oldest first. Of a long timeline the first and the last; the reason of an entry
    in between says how many it stands for."""
    abridged: bool
    """Whether `command`, `env`, `params` and the values of an `array` are cut short here, or left
    out; `GET /v1/jobs/{id}` shows them whole."""
    name: str | None
    """Name for people; several jobs may have the same one."""
    type: str | None
    """A job type instead of a command."""
    params: dict[str, Any] | None
    """Parameters of the type: a JSON object that its JSON Schema allows, at most 262,144 bytes."""
    command: list[str]
    """What runs: as submitted, or the command of a built-in type; empty for other types."""
    queue: str
    """The queue. Without it the filters of the queues choose, and if none is true it is the
    deployment's default queue."""
    priority: str
    """The lane of the queue."""
    resources: ResourcesView
    """Limits of one attempt."""
    network: str
    """`none`: loopback only. `egress`: the internet. `host`: the instance's network."""
    env: dict[str, str]
    """Environment variables."""
    secret_env: dict[str, str]
    """Variables and names of secrets; the agent reads the values when an attempt starts."""
    mask_secrets: bool
    """Whether `***` stands in place of these values, line by line from 8 bytes on, in the job's
    output, result, progress and error. false for what has them by chance, such as binary data."""
    merge_stderr: bool
    """Whether the job's standard error is its standard output: all is `stdout` then, in the exact
    order in which it was written. Of two streams only the order within each is known."""
    stdin: str | None
    """Text that the job reads from its standard input, at most 262,144 bytes; empty without it."""
    stdin_file: str | None
    """The SHA-256 of an uploaded file that the job reads from its standard input instead."""
    inputs: list[InputFileView]
    """Files that are placed in the work directory before each attempt, at most 1,000. They are
    uploaded before the job is submitted (`POST /v1/files`)."""
    outputs: list[str]
    """Globs of files in the work directory that are collected after each attempt, at most 20, such
    as `out/**`; `*`, `?` and `[a-z]` match within a name, `**` any number of directories. A
    directory means all files below it."""
    timeout_s: float
    """Time limit of one attempt: its processes get SIGTERM then, and SIGKILL 10 s later."""
    heartbeat_timeout_s: float | None
    """An attempt that sends nothing to its agent (descriptor 3) for this many seconds is stopped,
    as by `timeout_s`."""
    restartable: bool
    """false: never started twice, even if its agent fails."""
    retry: RetryView
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodesView
    """What exit codes of the job mean; any code but 0 is an ordinary failure otherwise. 75 of a job
    that has `requires`, or named a condition on its line, means that it waits."""
    labels: dict[str, str]
    """Labels to find jobs by."""
    items: int
    """Number of work items in this job, for queue statistics. A type may count them in the params;
    it is left out then."""
    run_at: str | None
    """Earliest start time; a time in the past means now."""
    deadline: str | None
    """Latest end time: a job that has not started by then expires, a running job gets SIGTERM, and
    SIGKILL 10 s later."""
    requires: list[str]
    """Conditions that must hold before the job starts."""
    concurrency: ConcurrencyView | str | None
    """Limits how many jobs with the same key run at once: a key of constants with its limits, or
    the name of a policy of joblane.toml."""
    array: ArrayView | None
    """Makes a group of up to 10,000 jobs, one for each index: each has its own in
    `JOBLANE_ARRAY_INDEX`, and their number in `JOBLANE_ARRAY_SIZE`. With `values` each has its own
    in `JOBLANE_ARRAY_VALUE`: a text as it is, anything else as JSON."""
    target: str | None
    """The agents that it is for, of those that serve its queue: `_any` of them (as without it),
    `_all`, `host:NAME` (or `NAME` alone, unless it may mean a label), or those with a label, such
    as `group:web.dev`. With `_all` or a label the job becomes a group of jobs, one for each agent
    that matches when it starts."""
    reply_timeout_s: float | None
    """With a target: seconds that an agent has to start the job (60 by default); otherwise the job
    fails."""
    max_concurrency: int | None
    """Of a group: maximum number of its jobs that run at once. An array with more than 1,000 jobs
    gets 1,000; without it all start at once."""
    max_failures: int | None
    """Of a group with `max_concurrency`: no further jobs begin after more failures than this. Those
    that have begun, up to `max_concurrency` of them, still run."""
    tolerate: int | str | None
    """Of a group: how many of its jobs may fail, a number or a share such as `5 %`, so that it is
    `completed` all the same; none without it."""
    notify: NotifyView | None
    """Whom to notify when the job ends or blocks, or of the events that `on` names; without it,
    whom joblane.toml names for its queue. Of a group, the group itself is what they are notified
    about, and with `members` each of its jobs as well."""
    traceparent: str | None
    """W3C trace context that the job belongs to: `00-<trace-id>-<parent-id>-<flags>`. Without it
    that of the request's header, and without that one is made; so also if it is invalid."""
    tracestate: str | None
    """What comes with `traceparent`; invalid or missing without it, it is left out."""
    warning: str | None
    """Why no live agent can serve the job now, as in the answer to a submission. null if one
    can."""


class LeftOut(Answer):
    """A job that was not changed."""

    id: str | None
    """The job's id; null for a member of a group that has not begun."""
    index: int | None
    """Of a member of the group that the request names its index there; null for any other job."""
    detail: str
    """Why."""


class JobsCancelled(Answer):
    """What one request of cancelling a group, or the jobs that filters select, did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    cancelled: int
    """Jobs that were cancelled, or whose agents were asked to stop them."""


class JobsRetried(Answer):
    """What one request of retrying a group, or the jobs that filters select, did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    retried: int
    """Jobs that were retried. Those of a group with `max_concurrency` start as there is room."""


class JobsDeleted(Answer):
    """What one request of deleting the jobs that filters select did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    deleted: int
    """Jobs that were deleted; a group and its jobs count as one."""


class JobResubmitted(Answer):
    """A job that was submitted again."""

    id: str
    """The job's id."""
    resubmitted_as: str
    """Id of the new job."""


class JobsResubmitted(Answer):
    """What one request of resubmitting the jobs that filters select did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    resubmitted: int
    """Number of new jobs."""
    already: int
    """Jobs that were left out because they have been resubmitted before."""
    jobs: list[JobResubmitted]
    """Those that were resubmitted, with their new ids."""


class LogRecord(Answer):
    """A piece of a job's output, usually a line; `epoch` and `seq` together identify it."""

    epoch: int
    """Number of the claim by an agent that it is of, from 1: each time that the job was started has
    its own, also those that do not count as an attempt."""
    attempt: int
    """Number of the attempt."""
    seq: int
    """Number of the record within the claim, from 1."""
    stream: str
    """`joblane` marks messages of Joblane, such as "output cap reached"."""
    time: str
    """When the job wrote it."""
    level: str | None
    """That of a record of a handler's log: `debug`, `info`, `warning`, `error` or `critical`.
    Messages of Joblane are warnings. What was printed has none, nor has the output of a command."""
    text: str | None
    """The output, if it is UTF-8."""
    base64: str | None
    """Bytes that are not UTF-8."""


class LogPage(Answer):
    """A page of a job's output."""

    entries: list[LogRecord]
    """Records of output, in order."""
    limit: int
    """Maximum number of entries of this page."""
    next: str
    """Cursor of the next page; always set, because more may come."""
    state: str
    """The job's state when the page was made."""
    more: bool
    """Whether more can be read at once, also after a page without entries."""
    complete: bool
    """Whether the output ends with this page."""


class LogEnd(Answer):
    """The end of a job's output in a stream of events."""

    state: str
    """Final state of the job."""
    reason: str
    """Its reason."""
    exit_code: int | None
    """Exit code of the last attempt."""


class Cancelled(Answer):
    """A job after a request to cancel it."""

    id: str
    """The job's ULID."""
    tenant: str
    """The tenant that owns it."""
    state: str
    """Its state."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of the present or last attempt; 0 before the first."""
    epoch: int
    """Number of claims so far."""
    edit: int
    """Number of changes of its submission so far: edits (`PATCH /v1/jobs/{job_id}`), and restarts
    with another version of its type."""
    outcome: str | None
    """How the last attempt that has ended did so; null before, and after a retry or replay."""
    exit_code: int | None
    """Exit code of the attempt that `outcome` is of; null if a signal ended it."""
    signal: int | None
    """Signal that ended that attempt."""
    limits: Limits
    """The limits that apply; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    """CPU, memory and I/O of that attempt."""
    agent: str | None
    """Agent of the present or last attempt; null after a retry or replay."""
    progress: Progress | None
    """What the running attempt reported last, up to 10 s ago. Only `GET /v1/jobs/{id}` shows it."""
    stats: Stats | None
    """What the running attempt uses, up to 10 s ago; null while its agent has not said it. Only
    `GET /v1/jobs/{id}` shows it."""
    result: Any
    """The result of a completed job, any JSON. Only `GET /v1/jobs/{id}` shows it."""
    output_files: dict[str, Any] | None
    """The files that the newest attempt with `outputs` left: how many, and which globs matched
    none. `GET /v1/jobs/{id}/outputs` lists them."""
    condition: str | None
    """Condition that a blocked job waits for."""
    assigned: str | None
    """Name of the only agent that may run it; null for jobs of a lane."""
    group: str | None
    """Id of the group that it is a member of; null for most jobs."""
    index: int | None
    """Of a member of a group its index there: in an array what `JOBLANE_ARRAY_INDEX` says, in a
    broadcast its number in the order of the agents' names; null for other jobs."""
    value: Any
    """Of a member of an array with values its value. Only `GET /v1/jobs/{id}` shows it."""
    members: int | None
    """Number of members of a group; null for a job, and for a group whose members are not chosen
    yet."""
    key: KeyOfJob | None
    """The key that limits how many jobs run at once with it; null for most jobs."""
    slot: int | None
    """Number of its slot of that key, which rises with each slot that is given; null while it waits
    for one."""
    submitted_by: WhoView | None
    """Who submitted it; of a job that a schedule started, who created that."""
    schedule: str | None
    """Name of the schedule that started it, or its group; null for other jobs."""
    scheduled_at: str | None
    """The due time of that schedule that it was started for, `JOBLANE_SCHEDULED_AT`."""
    type_version: int | None
    """Version of its type that it runs with: that of its submission, or of its last retry or
    replay. null for commands and built-in types."""
    cancel_requested: str | None
    """Why the running attempt was asked to stop."""
    hidden: bool
    """Whether lists leave the job out."""
    resubmit_of: str | None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt since its submission, or since it was last retried or replayed."""
    ended_at: str | None
    """Time when it ended."""
    next_at: str | None
    """Time of the next attempt, or the earliest start."""
    timeline: list[Transition]
    """Transitions, oldest first. Of a long timeline the first and the last; the reason of an entry
    in between says how many it stands for."""
    abridged: bool
    """Whether `command`, `env`, `params` and the values of an `array` are cut short here, or left
    out; `GET /v1/jobs/{id}` shows them whole."""
    name: str | None
    """Name for people; several jobs may have the same one."""
    type: str | None
    """A job type instead of a command."""
    params: dict[str, Any] | None
    """Parameters of the type: a JSON object that its JSON Schema allows, at most 262,144 bytes."""
    command: list[str]
    """What runs: as submitted, or the command of a built-in type; empty for other types."""
    queue: str
    """The queue. Without it the filters of the queues choose, and if none is true it is the
    deployment's default queue."""
    priority: str
    """The lane of the queue."""
    resources: ResourcesView
    """Limits of one attempt."""
    network: str
    """`none`: loopback only. `egress`: the internet. `host`: the instance's network."""
    env: dict[str, str]
    """Environment variables."""
    secret_env: dict[str, str]
    """Variables and names of secrets; the agent reads the values when an attempt starts."""
    mask_secrets: bool
    """Whether `***` stands in place of these values, line by line from 8 bytes on, in the job's
    output, result, progress and error. false for what has them by chance, such as binary data."""
    merge_stderr: bool
    """Whether the job's standard error is its standard output: all is `stdout` then, in the exact
    order in which it was written. Of two streams only the order within each is known."""
    stdin: str | None
    """Text that the job reads from its standard input, at most 262,144 bytes; empty without it."""
    stdin_file: str | None
    """The SHA-256 of an uploaded file that the job reads from its standard input instead."""
    inputs: list[InputFileView]
    """Files that are placed in the work directory before each attempt, at most 1,000. They are
    uploaded before the job is submitted (`POST /v1/files`)."""
    outputs: list[str]
    """Globs of files in the work directory that are collected after each attempt, at most 20, such
    as `out/**`; `*`, `?` and `[a-z]` match within a name, `**` any number of directories. A
    directory means all files below it."""
    timeout_s: float
    """Time limit of one attempt: its processes get SIGTERM then, and SIGKILL 10 s later."""
    heartbeat_timeout_s: float | None
    """An attempt that sends nothing to its agent (descriptor 3) for this many seconds is stopped,
    as by `timeout_s`."""
    restartable: bool
    """false: never started twice, even if its agent fails."""
    retry: RetryView
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodesView
    """What exit codes of the job mean; any code but 0 is an ordinary failure otherwise. 75 of a job
    that has `requires`, or named a condition on its line, means that it waits."""
    labels: dict[str, str]
    """Labels to find jobs by."""
    items: int
    """Number of work items in this job, for queue statistics. A type may count them in the params;
    it is left out then."""
    run_at: str | None
    """Earliest start time; a time in the past means now."""
    deadline: str | None
    """Latest end time: a job that has not started by then expires, a running job gets SIGTERM, and
    SIGKILL 10 s later."""
    requires: list[str]
    """Conditions that must hold before the job starts."""
    concurrency: ConcurrencyView | str | None
    """Limits how many jobs with the same key run at once: a key of constants with its limits, or
    the name of a policy of joblane.toml."""
    array: ArrayView | None
    """Makes a group of up to 10,000 jobs, one for each index: each has its own in
    `JOBLANE_ARRAY_INDEX`, and their number in `JOBLANE_ARRAY_SIZE`. With `values` each has its own
    in `JOBLANE_ARRAY_VALUE`: a text as it is, anything else as JSON."""
    target: str | None
    """The agents that it is for, of those that serve its queue: `_any` of them (as without it),
    `_all`, `host:NAME` (or `NAME` alone, unless it may mean a label), or those with a label, such
    as `group:web.dev`. With `_all` or a label the job becomes a group of jobs, one for each agent
    that matches when it starts."""
    reply_timeout_s: float | None
    """With a target: seconds that an agent has to start the job (60 by default); otherwise the job
    fails."""
    max_concurrency: int | None
    """Of a group: maximum number of its jobs that run at once. An array with more than 1,000 jobs
    gets 1,000; without it all start at once."""
    max_failures: int | None
    """Of a group with `max_concurrency`: no further jobs begin after more failures than this. Those
    that have begun, up to `max_concurrency` of them, still run."""
    tolerate: int | str | None
    """Of a group: how many of its jobs may fail, a number or a share such as `5 %`, so that it is
    `completed` all the same; none without it."""
    notify: NotifyView | None
    """Whom to notify when the job ends or blocks, or of the events that `on` names; without it,
    whom joblane.toml names for its queue. Of a group, the group itself is what they are notified
    about, and with `members` each of its jobs as well."""
    traceparent: str | None
    """W3C trace context that the job belongs to: `00-<trace-id>-<parent-id>-<flags>`. Without it
    that of the request's header, and without that one is made; so also if it is invalid."""
    tracestate: str | None
    """What comes with `traceparent`; invalid or missing without it, it is left out."""
    note: str
    """What happens next, in a sentence."""


class RefusalView(Answer):
    """The answer to a refused action."""

    status: int
    """HTTP status of the refusal."""
    detail: str
    """Why it was refused."""


class AuditEntry(Answer):
    """An entry of the audit trail."""

    id: str
    """Id of the entry; ids are in the order of time."""
    at: str
    """RFC 3339, UTC, milliseconds."""
    action: str
    """What was done."""
    by: WhoView | None
    """Who did it; null if it is not known."""
    by_platform: bool
    """Whether it was done in the role platform, which belongs to no tenant."""
    target: dict[str, str]
    """Object of the action: `job_id`, `group`, `queue`, `agent`, `condition`, `type` or
    `schedule`."""
    reason: str | None
    """Reason that the caller gave."""
    asked: dict[str, Any] | None
    """Other parameters of the request, such as the settings of a queue."""
    request_id: str | None
    """Id of the request, as in the logs."""
    trace_id: str | None
    """Trace-id of the job, as in the logs; null if it concerns no job that is there."""
    refused: RefusalView | None
    """The answer to a refused action; with a status of 500 or more it may be done in part. Null if
    the action was done, or if the function was killed before it could record a refusal."""


class AuditPage(Answer):
    """A page of the audit trail, newest first."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[AuditEntry]
    """The entries of this page."""


class Member(Answer):
    """A member of a group, and its job."""

    agent: str | None
    """Of a broadcast the name of the only agent that may run the job; of an array that of its
    present or last attempt."""
    index: int
    """Of an array its index, which it keeps for ever; of a broadcast its number in the order of the
    agents' names, from 0."""
    id: str | None
    """Id of its job; null if it has not begun."""
    state: str | None
    """State of its job. `waiting` if it has not begun yet; `skipped` or `cancelled` if it is not to
    begin any more; null if the row of its job has expired."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of its present or last attempt; 0 before the first."""
    exit_code: int | None
    """Exit code of its last attempt."""
    outcome: str | None
    """How its last attempt ended."""
    result: Any
    """The result of a completed job, any JSON of up to 1,024 bytes. Of a longer one `GET
    /v1/jobs/{id}` shows it."""
    result_size: int | None
    """Bytes of a result of more than 1,024, which is not here; null for any other job."""
    output_files: dict[str, Any] | None
    """The files that its newest attempt with `outputs` left: how many, and which globs matched
    none."""
    started_at: str | None
    """Start of its first attempt."""
    ended_at: str | None
    """Time when it ended."""


class GroupPage(Answer):
    """A group, and a page of its members."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    group: Job
    """The job that was submitted, with the state of the group."""
    kind: str
    """`array`, or `broadcast` for a job with a target of several agents."""
    counts: dict[str, int] | None
    """How many members are in each state, those that have not begun included; members that have
    ended and whose rows have expired while the group goes on are in none. null in pages after the
    first, and where they were not asked for."""
    failed_indices: str | None
    """The indices of the members that are failed, dead, expired or stale, as ranges such as
    `1,3-5,7`; empty for none. null where `counts` is."""
    indices: dict[str, str] | None
    """The indices of the members in each state, as such ranges; those whose rows have expired may
    be in none. null where `counts` is."""
    changed: bool
    """Whether the `result` of a member is an object with `"changed": true`: of one of these
    entries, or of any hundred members that have all ended."""
    entries: list[Member]
    """Members, in the order of their indices."""


class NextTime(Answer):
    """A time at which a schedule is due."""

    due_at: str
    """The time that its job gets as `JOBLANE_SCHEDULED_AT`: RFC 3339 in UTC."""
    local: str
    """The same in the schedule's zone, with its offset: `2026-03-29T03:00:00+02:00`."""
    starts_at: str
    """When it starts: `due_at` and the schedule's jitter."""


class ResultView(Answer):
    """What became of a due time, or of several in a row."""

    due_at: str
    """The due time, or the first of several. Of a run that somebody asked for, when that was."""
    to_at: str | None
    """The last of several due times; null for one."""
    times: int | None
    """How many due times: 1, or more with `to_at`. null for more than 10,000."""
    outcome: str
    """What became of them."""
    cause: str
    """What it comes from."""
    job_id: str | None
    """Id of the job or group that was started; null if none was."""
    at: str
    """When it was decided."""
    text: str
    """Why, in a sentence."""


class RequeueTemplateView(Answer):
    """What a schedule does instead of a submission: it sends messages of open jobs again."""

    queue: str
    """The queue whose jobs get new messages; `_all` is not allowed here."""
    type: str | None
    """Only jobs of this type; `command` jobs and all types without it."""
    priority: str | None
    """The lane that those which wait are moved to; without it they stay in theirs."""


class ScheduleView(Answer):
    """A schedule."""

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
    overlap: str
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
    submission: dict[str, Any] | None
    """What it submits, with the fields that were given; null with `requeue`."""
    requeue: RequeueTemplateView | None
    """Which messages it sends again; null with `submission`."""
    running: str | None
    """Id of the job or group that it started last, which may have ended; null for none."""
    next_times: list[NextTime]
    """The next five times at which it is due, also while it is paused."""
    results: list[ResultView]
    """The latest ten results, the newest first."""
    warnings: list[str]
    """What is surprising: what the expression does when clocks are changed, and input files that
    expire before they are used."""
    created_at: str
    """When it was created."""
    created_by: WhoView | None
    """Who created it; null if joblane.toml declares it."""
    changed_at: str
    """When it was created or last changed, paused or resumed."""


class ScheduleSummary(Answer):
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
    overlap: str
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


class SchedulePage(Answer):
    """A page of a tenant's schedules, by name."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[ScheduleSummary]
    """The entries of this page."""


class Preview(Answer):
    """When a schedule would be due."""

    zone: str
    """The time zone of `cron`."""
    next_times: list[NextTime]
    """The next times; fewer than asked for if it is over before."""
    warnings: list[str]
    """What is surprising about it: what a wildcard does when clocks are changed."""


class Backfilled(Answer):
    """What a backfill did."""

    started: int
    """Due times for which a job or group was submitted."""
    already: int
    """Due times that have a job or group of this schedule; it is left as it is."""
    refused: int
    """Due times for which the submission was not accepted."""
    left: int
    """Due times that were not reached for lack of time: send the request again. With `check` all of
    them."""
    text: str
    """The same as a sentence; of what was refused, why."""
    jobs: list[str]
    """Ids of all that were started."""


class ResultPage(Answer):
    """A page of a schedule's results, the newest first."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[ResultView]
    """The entries of this page."""


class DeadReplayed(Answer):
    """What one request of replaying the dead jobs that filters select did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    replayed: int
    """Jobs that start again."""


class DeadDismissed(Answer):
    """What one request of dismissing the dead jobs that filters select did."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    dismissed: int
    """Jobs that were dismissed."""


class Requeued(Answer):
    """Result of one page of a requeue."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    requeued: int
    """Number of messages sent."""


class Restarted(Answer):
    """Result of one page of a restart."""

    examined: int
    """Number of jobs that were examined."""
    refused: list[LeftOut]
    """Jobs that were left out, with the reason."""
    next: str | None
    """Cursor of the next page; null at the end."""
    restarted: int
    """Number of jobs started again."""


class DiskView(Answer):
    """What a disk of an agent's host has for jobs, in MiB."""

    free_mb: int
    """For more jobs; what jobs on the agent may still write is not free. Below 0 while one waits
    for what it has reserved."""
    most_mb: int
    """For one job, if all jobs of the agent ended."""


class AgentView(Answer):
    """An agent, as of its last heartbeat."""

    name: str
    """The agent's name, unique in the deployment."""
    alive: bool
    """Whether it holds the lease on its jobs."""
    last_seen_at: str
    """Time of the last heartbeat."""
    threads: int
    """Number of slots."""
    running: int
    """Number of running jobs."""
    queues: list[str]
    """Queues that it serves."""
    isolation: str
    """`full` or `namespaces`."""
    version: str
    """Its version of Joblane."""
    trouble: str | None
    """Why it takes no jobs, or which reports are waiting; null if there is no problem."""
    lacks: list[str]
    """What its host cannot give any job: limits by their names, and `egress`."""
    memory_mb: int | None
    """The most memory that one job may have there, in MiB; null: any."""
    cores: int | None
    """Cores that jobs may name: those below it; null: it is not known."""
    disk: DiskView | None
    """The disk for input files, bundles, output, and work directories of jobs with `disk_mb`; null:
    it is not known."""
    work_disk: DiskView | None
    """The disk for work directories, if they have one of their own."""
    load: float | None
    """Load average of its host in the last minute: tasks that run or wait for a CPU or a disk, of
    jobs and of all else; null: it is not known."""
    free_memory_mb: int | None
    """Memory of its host that is available, in MiB; null: it is not known. It may be reserved for
    jobs that run: `memory_mb` is what jobs may have."""
    state: str
    """`ready`; `cordoning`: cordoned, with jobs that still run; `cordoned`; `draining`; or `gone`:
    no heartbeat for the time of its lease."""
    labels: dict[str, str]
    """Its labels, by which targets select it."""
    facts: dict[str, str | int | float | bool]
    """Facts by name: all of a single agent, those asked for in a list. Empty if none are known: the
    agent is gone."""


class AgentPage(Answer):
    """A page of agents."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[AgentView]
    """The entries of this page."""


class StatePoolView(Answer):
    """The connections of an agent to its state service, since the agent's start."""

    pool_size: int
    """Most connections at once."""
    active: int
    """In use at the heartbeat."""
    available: int
    """Open and idle at the heartbeat."""
    acquisitions: int
    """Connections lent: requests."""
    creations: int
    """Connections opened."""
    errors: int
    """Connections that could not be opened or broke, without timeouts."""
    timeouts: int
    """Connections that could not be opened, or did not answer, in time."""
    health_checks: int
    """Idle connections that were tested before use."""


class AgentJob(Answer):
    """A job on an agent: whose it is, and nothing of what it does."""

    id: str
    """The job's id."""
    tenant: str
    """Its tenant."""
    queue: str
    """Its queue."""
    state: str
    """Its state."""


class AgentDetail(Answer):
    """An agent and the jobs that it runs."""

    name: str
    """The agent's name, unique in the deployment."""
    alive: bool
    """Whether it holds the lease on its jobs."""
    last_seen_at: str
    """Time of the last heartbeat."""
    threads: int
    """Number of slots."""
    running: int
    """Number of running jobs."""
    queues: list[str]
    """Queues that it serves."""
    isolation: str
    """`full` or `namespaces`."""
    version: str
    """Its version of Joblane."""
    trouble: str | None
    """Why it takes no jobs, or which reports are waiting; null if there is no problem."""
    lacks: list[str]
    """What its host cannot give any job: limits by their names, and `egress`."""
    memory_mb: int | None
    """The most memory that one job may have there, in MiB; null: any."""
    cores: int | None
    """Cores that jobs may name: those below it; null: it is not known."""
    disk: DiskView | None
    """The disk for input files, bundles, output, and work directories of jobs with `disk_mb`; null:
    it is not known."""
    work_disk: DiskView | None
    """The disk for work directories, if they have one of their own."""
    load: float | None
    """Load average of its host in the last minute: tasks that run or wait for a CPU or a disk, of
    jobs and of all else; null: it is not known."""
    free_memory_mb: int | None
    """Memory of its host that is available, in MiB; null: it is not known. It may be reserved for
    jobs that run: `memory_mb` is what jobs may have."""
    state: str
    """`ready`; `cordoning`: cordoned, with jobs that still run; `cordoned`; `draining`; or `gone`:
    no heartbeat for the time of its lease."""
    labels: dict[str, str]
    """Its labels, by which targets select it."""
    facts: dict[str, str | int | float | bool]
    """Facts by name: all of a single agent, those asked for in a list. Empty if none are known: the
    agent is gone."""
    started_at: str
    """When this process of the agent started."""
    state_pool: StatePoolView | None
    """Its connections to its state service; null: the instance has no agent."""
    jobs: list[AgentJob]
    """The jobs that it runs, as of its last heartbeat."""


class AgentAsked(Answer):
    """An agent that was sent a command, as it was before."""

    name: str
    """The agent's name, unique in the deployment."""
    alive: bool
    """Whether it holds the lease on its jobs."""
    last_seen_at: str
    """Time of the last heartbeat."""
    threads: int
    """Number of slots."""
    running: int
    """Number of running jobs."""
    queues: list[str]
    """Queues that it serves."""
    isolation: str
    """`full` or `namespaces`."""
    version: str
    """Its version of Joblane."""
    trouble: str | None
    """Why it takes no jobs, or which reports are waiting; null if there is no problem."""
    lacks: list[str]
    """What its host cannot give any job: limits by their names, and `egress`."""
    memory_mb: int | None
    """The most memory that one job may have there, in MiB; null: any."""
    cores: int | None
    """Cores that jobs may name: those below it; null: it is not known."""
    disk: DiskView | None
    """The disk for input files, bundles, output, and work directories of jobs with `disk_mb`; null:
    it is not known."""
    work_disk: DiskView | None
    """The disk for work directories, if they have one of their own."""
    load: float | None
    """Load average of its host in the last minute: tasks that run or wait for a CPU or a disk, of
    jobs and of all else; null: it is not known."""
    free_memory_mb: int | None
    """Memory of its host that is available, in MiB; null: it is not known. It may be reserved for
    jobs that run: `memory_mb` is what jobs may have."""
    state: str
    """`ready`; `cordoning`: cordoned, with jobs that still run; `cordoned`; `draining`; or `gone`:
    no heartbeat for the time of its lease."""
    labels: dict[str, str]
    """Its labels, by which targets select it."""
    facts: dict[str, str | int | float | bool]
    """Facts by name: all of a single agent, those asked for in a list. Empty if none are known: the
    agent is gone."""
    note: str
    """What happens next, in a sentence."""


class ConditionView(Answer):
    """A condition that jobs of the caller's tenant wait for."""

    name: str
    """The condition, such as `http:https://api.example.com/health`."""
    kind: str
    """The part of the name before the first colon."""
    since_at: str
    """When the tenant's longest-waiting job was blocked."""
    waiting: int
    """Number of waiting jobs of the tenant, at most a hundred."""
    more: bool
    """Whether more of its jobs wait."""
    reason: str
    """Result of the last test."""
    tests: int
    """Number of tests since the last release of a job."""
    next_test_at: str | None
    """Time of the next test; null until its execution has started."""
    policy: str
    """The policy that sets the delays between tests."""
    gives_up_at: str
    """When the longest-waiting job fails if the condition still blocks."""


class OutageView(Answer):
    """An application that is declared down."""

    name: str
    """The application, such as `app:billing`."""
    reason: str
    """The reason that was given, who declared it, and when."""
    until_at: str
    """When the declaration expires."""
    all_tenants: bool
    """Whether the role platform has declared it, for the jobs of all tenants."""


class ConditionPage(Answer):
    """A page of conditions."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[ConditionView]
    """The entries of this page."""
    down: list[OutageView]
    """Applications that are declared down, also if no job waits for them: on the first page, at
    most a hundred of the tenant and a hundred of all tenants."""


class AppView(Answer):
    """The declared state of an application."""

    name: str
    """The application, such as `app:billing`."""
    state: str
    """Whether it is declared down."""
    reason: str
    """The reason that was given."""
    until_at: str | None
    """When a declaration that it is down expires."""


class KeyView(Answer):
    """A key of the caller's tenant that jobs have or wait for."""

    type: str
    """The job type; `command` for keys that submissions write out, `policy.NAME` for those of a
    policy of joblane.toml."""
    id: str
    """32 hexadecimal digits, which stand for the segments."""
    segments: list[str | int | float | bool]
    """The strings, numbers and booleans that name the key."""
    active: int
    """Jobs that have a slot."""
    queued: int
    """Jobs that wait for a slot."""
    max_active: int
    """Maximum number of jobs with a slot, as the latest job of the key said; the same for the next
    fields."""
    max_queued: int
    """Maximum number of jobs that wait for a slot."""
    when_full: str
    """What happens to another job."""
    stale_policy: str
    """What happens to a job whose agent was lost."""


class KeyPage(Answer):
    """A page of keys."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[KeyView]
    """The entries of this page; it may have fewer than `limit` although another one follows."""


class KeyHolder(Answer):
    """A job that has a slot of a key."""

    id: str
    """Id of the job."""
    slot: int
    """Number of its slot, which rises with each slot that the key gives."""
    state: str | None
    """Its state. A job that has ended, or is deleted (null), frees its slot within moments."""
    since_at: str | None
    """Since when it has the slot; null if it is deleted."""
    reason: str
    """What it does or waits for: a sentence."""
    agent: str | None
    """Agent of its last attempt."""
    heartbeat_at: str | None
    """Latest heartbeat of that agent, if the job runs; null if not, or if the agent is gone."""
    lease_ends_at: str | None
    """When the lease ends that this heartbeat gives: after that another agent takes the job over,
    or it ends as stale (`stale_policy`)."""


class KeyWaiter(Answer):
    """A job that waits for a slot of a key."""

    id: str
    """Id of the job."""
    position: int
    """1 for the job that gets the next slot."""
    state: str | None
    """Its state. A job that has ended, or is deleted (null), leaves the queue within moments."""
    since_at: str | None
    """Since when it waits; null if it is deleted."""
    reason: str
    """What it waits for: a sentence."""


class KeyDetail(Answer):
    """A key with its jobs."""

    type: str
    """The job type; `command` for keys that submissions write out, `policy.NAME` for those of a
    policy of joblane.toml."""
    id: str
    """32 hexadecimal digits, which stand for the segments."""
    segments: list[str | int | float | bool]
    """The strings, numbers and booleans that name the key."""
    active: int
    """Jobs that have a slot."""
    queued: int
    """Jobs that wait for a slot."""
    max_active: int
    """Maximum number of jobs with a slot, as the latest job of the key said; the same for the next
    fields."""
    max_queued: int
    """Maximum number of jobs that wait for a slot."""
    when_full: str
    """What happens to another job."""
    stale_policy: str
    """What happens to a job whose agent was lost."""
    queued_total: int
    """Jobs that had to wait so far. The counts begin again a day after the last job of the key."""
    replaced: int
    """Jobs that newer ones have replaced."""
    stale: int
    """Jobs that ended as stale."""
    holders: list[KeyHolder]
    """The jobs that have a slot, in the order in which they got it."""
    queue: list[KeyWaiter]
    """The jobs that wait for a slot, the next one first; at most 100 of them."""


class Cleared(Answer):
    """What clearing the queue of a key did."""

    cancelled: list[str]
    """Ids of the jobs that were cancelled."""
    left: int
    """Jobs that still wait; send the request again to cancel these too."""


class LaneView(Answer):
    """One lane: message counts of its SQS queue."""

    lane: str
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


class SettingsView(Answer):
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


class MoveView(Answer):
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


class RetiredView(Answer):
    """A queue that takes no more jobs."""

    moves_to: str | None
    """The queue that its waiting jobs move to; null: they stay, and run."""
    move: MoveView | None
    """null without `moves_to`, and until the first pass begins, within a minute after the
    deployment."""


class Count(Answer):
    """Number of jobs and of their work items."""

    jobs: int
    """Number of jobs."""
    items: int
    """Sum of their `items`."""


class OldestJob(Answer):
    """The job that was submitted first of those that wait and could have started. It is waiting,
    pending, retry or blocked: not scheduled, and no member of a group. One that is started again by
    hand has its first id, and so its first age.
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


class OpenJobs(Answer):
    """Jobs that wait or run, of the caller's tenant, or of all for the role platform. Counted from
    changes of jobs, some 5 s late; members of groups count.
    """

    waiting: Count
    """Jobs that neither run nor have ended: scheduled, waiting, pending, retry or blocked."""
    running: Count
    """Running jobs."""
    oldest: OldestJob | None
    """The oldest job that waits; null if none does."""


class Activity(Answer):
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


class QueueView(Answer):
    """A queue as the API answers it; its lanes in the order in which agents serve them."""

    name: str
    """The queue's name."""
    lanes: list[LaneView]
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
    activity: list[Activity]
    """Of the caller's tenant, or of all for the role platform, over 1, 5 and 60 minutes."""


class QueuePage(Answer):
    """All queues that the caller's tenant may use, or all for the role platform."""

    limit: int
    """Maximum number of entries of this page."""
    next: None
    """Cursor of the next page; null, because there is none."""
    entries: list[QueueView]
    """The entries of this page."""


class TypeDefaultsView(Answer):
    """Fields of a submission that the type sets where a submission does not."""

    queue: str | None
    """The queue."""
    priority: str | None
    """The lane of the queue."""
    timeout_s: float | None
    """Time limit of one attempt."""
    heartbeat_timeout_s: float | None
    """Longest time without a message from the handler."""
    deadline_s: float | None
    """Seconds to the `deadline` of a job, from its submission or its `run_at`."""
    retry: RetryView | None
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodesView | None
    """What exit codes of the handler mean besides 65 (`PermanentError`) and 75 (`Job.block`)."""
    resources: ResourcesView | None
    """Limits of one attempt."""
    network: str | None
    """The network of the job."""
    restartable: bool | None
    """false: never started twice, even if its agent fails."""
    env: dict[str, str]
    """Environment variables; those of the submission take precedence."""


class TypeKeyView(Answer):
    """The key of a type's jobs, and its limits."""

    max_active: int
    """Jobs of a key that have a slot at once; a job has it up to its end, through retries."""
    max_queued: int
    """Jobs that wait for a slot. A job is accepted while `active + queued` is less than `max_active
    + max_queued`."""
    when_full: str
    """What happens to another job: `reject` it, `coalesce` it with one that is there, or
    `replace-oldest`, which skips the first one that waits, else one that has not started."""
    stale_policy: str
    """What happens to a job whose agent was lost. `block`: another agent runs it again, in the same
    slot. `fail-stale`: it ends as stale if another job waits for the slot."""
    segments: list[bool | str | int | float]
    """Strings, numbers and booleans; a string that begins with `/` is a JSON Pointer into the
    params. Jobs of the type with the same values have the same key."""


class TypeEntry(Answer):
    """A job type in a list."""

    type: str
    """Its name."""
    version: int | None
    """Version of new jobs; null for a built-in type."""
    description: str
    """What it does, for people."""
    entry: str | None
    """The handler, `package.module:function`; null for a built-in type."""
    python: str | None
    """Version of Python that runs it; null for a built-in type."""
    bundles: dict[str, str]
    """SHA-256 of the bundle for each architecture of the instances that may run it."""
    defaults: TypeDefaultsView
    """Fields that a submission need not set."""
    items: str | None
    """JSON Pointer to the array in the params whose length is the number of work items."""
    key: TypeKeyView | None
    """What limits how many jobs of the type run at once."""
    pushed_at: str | None
    """Time of the push of this version; null for a built-in type."""
    pushed_by: WhoView | None
    """Who pushed it; null for a built-in type."""
    jobs: OpenJobs | None
    """Its jobs that wait or run; null without `counts`, or before a change of a job was counted."""


class TypePage(Answer):
    """All job types of the caller's tenant, the built-in ones included."""

    limit: int
    """Maximum number of entries of this page."""
    next: None
    """Cursor of the next page; null, because there is none."""
    commands: OpenJobs | None
    """Jobs without a type that wait or run; null as `jobs` of a type."""
    entries: list[TypeEntry]
    """The types, by name."""
    architectures: list[str]
    """Architectures of the deployment's fleets, for which bundles are built."""


class TypeView(Answer):
    """A job type."""

    type: str
    """Its name."""
    version: int | None
    """Version of new jobs; null for a built-in type."""
    description: str
    """What it does, for people."""
    entry: str | None
    """The handler, `package.module:function`; null for a built-in type."""
    python: str | None
    """Version of Python that runs it; null for a built-in type."""
    bundles: dict[str, str]
    """SHA-256 of the bundle for each architecture of the instances that may run it."""
    defaults: TypeDefaultsView
    """Fields that a submission need not set."""
    items: str | None
    """JSON Pointer to the array in the params whose length is the number of work items."""
    key: TypeKeyView | None
    """What limits how many jobs of the type run at once."""
    pushed_at: str | None
    """Time of the push of this version; null for a built-in type."""
    pushed_by: WhoView | None
    """Who pushed it; null for a built-in type."""
    params_schema: dict[str, Any]
    """JSON Schema of the params."""
    result_schema: dict[str, Any] | None
    """JSON Schema of the result; null if any JSON is one."""


class TypeChange(Answer):
    """A field of a type's definition that has changed."""

    field: str
    """Such as `bundles` and `key.max_active`."""
    kind: str
    """`narrows`: jobs that set nothing else get less than before. `breaks-producers`: params are
    refused that were allowed. `needs-empty-key`: jobs have other keys than those that run.
    `update`: none of these."""
    why: str | None
    """What is less, refused or different; null for an update."""


class Pushed(Answer):
    """What a push has changed, or would change."""

    type: str
    """Name of the type."""
    version: int
    """Its version, for jobs that are submitted from now on."""
    change: str
    """`migrated`: the key's segments were changed while keys of the type were in use."""
    changes: list[TypeChange]
    """Fields of the definition that have changed."""


class Upload(Answer):
    """A request that uploads a bundle or a file."""

    url: str
    """URL of the PUT, valid for 15 minutes. Whoever has it may upload this content."""
    headers: dict[str, str]
    """Headers that the request must have. S3 answers 412 if the bundle is there by then, and 400
    for other content."""


class BundleUpload(Answer):
    """Whether a bundle is there, and how to upload it."""

    exists: bool
    """Whether it is there."""
    upload: Upload | None
    """The request that uploads it; null if it is there."""


class FileUpload(Answer):
    """Whether a file is there, and else how to upload it."""

    sha256: str
    """SHA-256 of its content, in hexadecimal digits."""
    exists: bool
    """Whether the tenant has uploaded this file, and it is kept for at least half of
    `retention.files_days` from now."""
    upload: Upload | None
    """How to upload it; null if it exists."""


class FilesAnswer(Answer):
    """The answer of `POST /v1/files`."""

    files: list[FileUpload]
    """One entry for each file, in order."""


class Contract(Answer):
    """An OpenAPI document: this one."""

    openapi: str
    """Version of OpenAPI."""


class Health(Answer):
    """Whether the API is up."""

    status: str
    """`ok`."""
    version: str
    """Version of the deployment."""


class Login(Answer):
    """The answer of `GET /v1/login`."""

    openid_configuration: str
    """URL of the issuer's discovery document, which names its endpoints."""
    client_id: str | None
    """The public client that people log in with; None if there is none."""
    scopes: list[str]
    """Scopes to request; a role may grant fewer."""
    audience: str | None
    """Value for issuers that require an `audience`."""


class Caller(Answer):
    """The caller, as the API sees it."""

    kind: str
    """`person` or `machine`."""
    name: str
    """Name of the user or machine."""
    tenant: str | None
    """Its tenant; null for the role platform."""
    role: str | None
    """Its role; null if the issuer gives scopes and no role."""
    scopes: list[str]
    """What it may do: the scopes of its token that its role has, too."""


class JobCounts(Answer):
    """The jobs of the caller's tenant by state, counted from changes of jobs."""

    counted_at: str
    """When they were counted: after the last change that is in them."""
    by_state: dict[str, int]
    """Number of jobs in each state that has one. Members of groups do not count, as in lists."""


class LimitView(Answer):
    """A limit of the caller's tenant."""

    limit: str
    """Its key in joblane.toml."""
    allowed: int
    """Its value."""
    current: int | None
    """What the tenant uses of it, some seconds old; null if that is not counted."""


class AgentCounts(Answer):
    """The agents that serve a queue which the caller may use; all for the role platform."""

    alive: int
    """Agents that hold the lease on their jobs."""
    slots: int
    """Their slots."""
    running: int
    """Jobs that run on them, of all tenants."""
    free: int
    """Free slots of agents that take jobs: neither cordoned nor draining, and without trouble."""
    troubled: int
    """Those of them that report trouble."""
    cordoned: int
    """Agents of these that are cordoned or draining."""
    more: bool
    """Whether there may be more: at most 400 agents are read."""
    lacks: dict[str, list[str]]
    """By queue that the caller may use: limits by their names, and `egress`, that none of its live
    agents can give a job. Without queues of which nothing is lacking, or which no agent serves;
    empty if not all agents were read."""


class LinkView(Answer):
    """A link to another system, from joblane.toml."""

    name: str
    """Its name."""
    template: str
    """A URL with placeholders such as `{job_id}`."""


class PriceView(Answer):
    """What a slot of a queue costs, from the prices of instances in joblane.toml."""

    usd_per_slot_hour_min: float
    """US dollars for a slot and hour, on the cheapest instance that serves the queue."""
    usd_per_slot_hour_max: float
    """The same on the most expensive one."""


class Summary(Answer):
    """The caller, and what goes on in its part of the deployment."""

    caller: Caller
    """Who asks."""
    now: str
    """The time of the API."""
    jobs: JobCounts | None
    """Jobs of the caller's tenant; null for the role platform, and before anything was counted."""
    limits: list[LimitView]
    """Limits of the caller's tenant; empty for the role platform."""
    agents: AgentCounts
    """Agents, as of their last heartbeats."""
    links: list[LinkView]
    """Links to other systems."""
    prices: dict[str, PriceView]
    """What a slot costs, by queue: of those queues that the caller may use and that have prices."""
    version: str
    """Version of the deployment."""
    deployment: str
    """Name of the deployment."""


class ActivityPoint(Answer):
    """What happened to the jobs of a queue within one step."""

    at: str
    """Beginning of the step."""
    submitted: int
    """New jobs."""
    started: int
    """Attempts that started; an attempt that another agent took over counts once."""
    completed: int
    """Jobs that ended completed."""
    failed: int
    """Jobs that ended failed or dead."""
    retried: int
    """Failed attempts that are followed by another one."""
    mean_wait_s: float | None
    """Mean time from ready to started; null if no job started."""


class QueueActivity(Answer):
    """Activity of a queue over time: of the caller's tenant, or of all for the role platform."""

    queue: str
    """The queue's name."""
    span: str
    """`1h` or `24h`."""
    step_s: int
    """Seconds from one point to the next: 60 for an hour, 300 for a day."""
    points: list[ActivityPoint]
    """60 points for an hour, 288 for a day, oldest first; the last one is not over."""
    complete_until: str
    """Points that begin at this time or later are not complete yet. Those before are, unless the
    projector is late."""


class ScalingActivityView(Answer):
    """What the Auto Scaling group of a fleet did, or tried."""

    at: str
    """When it began."""
    status: str
    """`Successful`, `Failed`, `Cancelled`, or a status on the way there, as Auto Scaling has it."""
    description: str
    """What it is."""
    cause: str | None
    """Why; of an activity that failed, the error."""


class ReasonView(Answer):
    """One reason."""

    code: str
    """Its kind, which programs may depend on; docs/reference/why.md lists all."""
    text: str
    """The same as a sentence; times in it are RFC 3339 in UTC."""
    facts: dict[str, str | int | float | bool | list[str] | None]
    """The values in the sentence and some more, named as docs/reference/why.md lists them. Names of
    times end in `_at`, those of seconds in `_s`."""
    commands: list[str]
    """Commands that show more or change it; empty if there is nothing to do. Some need a role that
    the caller may not have."""


class FleetDecision(Answer):
    """What the scaler last decided for a fleet. It decides every minute."""

    at: str
    """When it was written. Figures are up to five minutes old; changes of state are written at
    once."""
    wanted: int
    """Slots wanted: jobs that run, and `backlog`."""
    backlog: int
    """Messages that could start and that this fleet is to run."""
    max: int
    """Largest size of the group, which somebody may have set below `max_size`."""
    alive: int
    """Agents that take jobs."""
    busy: int
    """Instances whose agents have jobs."""
    booting: int
    """Instances whose agent is expected."""
    raised_at: str | None
    """When the scaler last asked for more instances; null: never."""
    reasons: list[ReasonView]
    """Why the fleet has no more instances than it has, with codes of docs/reference/why.md; empty
    if nothing keeps it from having them."""


class FleetView(Answer):
    """A fleet with the state of its Auto Scaling group."""

    name: str
    """The fleet's name."""
    queues: list[str]
    """Queues that its agents serve."""
    instance_types: list[str]
    """EC2 instance types, in order of preference."""
    architecture: str
    """CPU architecture of its instances."""
    ami: str | None
    """Image of its instances: an id or the name of an SSM parameter; null: AWS's newest."""
    packages: list[str]
    """Packages that its instances install when they boot."""
    setup: str | None
    """Program that then runs, a file beside joblane.toml; null: none."""
    min_size: int
    """Smallest number of instances."""
    max_size: int
    """Largest number of instances."""
    price_per_hour: dict[str, float]
    """US dollars for an hour of an instance, by type; empty if joblane.toml has no prices."""
    desired: int | None
    """Number of instances that the group wants; null if the group cannot be read."""
    in_service: int | None
    """Number of instances in service."""
    activities: list[ScalingActivityView]
    """The newest activities of the group, newest first, 20 at most."""
    note: str | None
    """What cannot be shown, and why; null if nothing is missing."""
    decision: FleetDecision | None
    """What the scaler last decided; null if it never has, or if it cannot be read (see `note`)."""


class FleetPage(Answer):
    """The fleets of the deployment."""

    limit: int
    """Maximum number of entries of this page."""
    next: None
    """Cursor of the next page; null, because there is none."""
    entries: list[FleetView]
    """The entries of this page."""


class Why(Answer):
    """Why a job is where it is."""

    id: str | None
    """The job's ULID; null for a member of a group that has not begun."""
    group: str | None
    """Of a member of a group the id of that; null for any other job."""
    index: int | None
    """Of a member of a group its index there; null for any other job."""
    state: str
    """Its state."""
    at: str
    """When this was found out; figures of agents and lanes are older, as their facts say."""
    summary: str
    """The state, since when, and the first reason: one sentence."""
    reasons: list[ReasonView]
    """At least one; the one that decides comes first."""


class ListedFile(Answer):
    """An output file in a list."""

    path: str
    """Path below the work directory."""
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of its content, in hexadecimal digits."""
    mode: str
    """Permissions in octal."""
    url: str | None
    """Where it can be downloaded for some minutes, without a token; null unless asked for."""


class OutputPage(Answer):
    """A page of a job's output files, by path: those of the newest attempt that left any."""

    limit: int
    """Maximum number of entries of this page."""
    next: str | None
    """Cursor of the next page; null at the end. A page may be shorter than `limit` and have one."""
    entries: list[ListedFile]
    """The entries of this page."""
    epoch: int | None
    """The claim whose attempt it was; null if no attempt has collected files yet."""
    count: int
    """Number of all files."""
    bytes: int
    """Their size together."""
    unmatched: list[str]
    """Globs of `outputs` that matched no file."""
    skipped: list[SkippedFile]
    """Paths that were matched and not collected, at most 20 of them."""
    skipped_count: int
    """Number of all such paths."""
