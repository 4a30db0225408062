"""A submission: the fields that describe a job, and their validation.

Messages name the wrong field and what is allowed, and never repeat the value: it may be
confidential.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from joblane.deployment.names import Lane, Name
from joblane.files.fields import Sha256
from joblane.formats.times import unix_ms
from joblane.group.array import AT_ONCE, Array, Tolerance
from joblane.job.exit_codes import ExitCodes
from joblane.job.fields import (
    INPUT,
    Argument,
    ConditionName,
    Cores,
    EnvName,
    EnvValue,
    HeartbeatTimeout,
    Input,
    Inputs,
    JobName,
    LabelKey,
    LabelValue,
    Moment,
    NetworkAccess,
    Outputs,
    Params,
    SecretReference,
    Stdin,
    Timeout,
    TypeName,
    text_bytes,
)
from joblane.key.policy import AnyConcurrency
from joblane.notify.field import NotifyField
from joblane.target.match import ANY, Target, TargetText, parse_target

MAX_BODY_BYTES = 3_000_000
"""Largest body of a request, a job's or a batch's.

Lambda takes an event of 6 MB (6,291,556 bytes; API Gateway would take 10 MB). The event holds
the body as a JSON string, in which every quote and backslash counts twice, so twice this limit
must fit: 291,556 bytes are left for headers (10 KB at most), path and claims. The answer of `get`
has the same bound, and uses the rest for its timeline.
"""

DEFAULT_MEMORY_MB = 512
"""Memory of a job that asks for none, in MiB; wake-up messages without a figure mean it too."""

DEFAULT_TMP_MB = 256
"""Size of /tmp and the work directory of a job that asks for none, in MiB."""

DEFAULT_PIDS = 1024
"""Processes and threads of a job that asks for no limit (`ec2_agent.sandbox.launcher`)."""

MAX_EXEC_BYTES = 2 * 1024 * 1024 - 16 * 1024
"""Limit of a command and its environment together, as `exec_bytes` counts them.

Linux allows a quarter of the stack's soft limit, whose default is 8 MB. The reserve is for the
agent's own variables (under 1 KB, a trace context included) and for the file name, which counts
as well: up to 4 KB, and again for the interpreter of a script.
"""

MAX_BATCH = 100
"""Most jobs of one `POST /v1/jobs/batch`."""

LISTED_CHARS = 500
"""Characters of command, environment and params that lists show; only the answer for a single job
shows longer ones whole, so that a page of a hundred jobs stays small."""

LOG_PAGE_MAX = 1000


def exec_bytes(words: Iterable[str], env: Mapping[str, str]) -> int:
    """Size of a command and its environment as Linux counts it, in bytes.

    Each string counts with its NUL and the pointer to it (`bprm_stack_limits` in fs/exec.c).
    """
    strings = [*words, *(f"{name}={value}" for name, value in env.items())]
    return text_bytes("".join(strings)) + len(strings) * (1 + 8)


def parse_valid_target(target: str | None) -> Target | None:
    """The target of a valid submission; None for any agent."""
    return None if target is None else parse_target(target)


def is_broadcast(target: str | None) -> bool:
    """Whether a job with this target becomes a group of one job for each agent."""
    parsed = parse_valid_target(target)
    return parsed is not None and parsed.broadcast


GROUPING: Final = frozenset(
    {"array", "target", "reply_timeout_s", "max_concurrency", "max_failures", "tolerate"}
)
"""Fields of a submission about its target or its array."""

ONLY_OF_GROUPS: Final = (
    "allowed with a target of several agents only: _all, or a label; or with an array"
)
"""What is wrong with a field of groups in another submission."""

_OF_A_GROUP: Final = dict.fromkeys(
    ("array", "target", "max_concurrency", "max_failures", "tolerate")
)
"""Fields of a group's submission that its members do not have."""


class Resources(Input):
    """Limits of one attempt. A host that cannot apply one leaves the job to another agent."""

    cpus: Annotated[float, Field(gt=0, le=1024)] | None = None
    """CPU bandwidth: 0.5 is half of one core. Without it, running jobs share the cores equally."""
    memory_mb: Annotated[int, Field(ge=4, le=16_777_216)] | None = None
    """Memory in MiB, 512 by default; a job that exceeds it is killed."""
    pids: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    """Maximum number of processes and threads, 1024 by default."""
    cores: Cores | None = None
    """Cores to run on, such as `0-2,5`. An agent that lacks one of them does not run the job;
    `[fleets.NAME.max] cores` refuses such a job when it is submitted."""
    io_bps: Annotated[int, Field(ge=1024)] | None = None
    """Bytes a second read from and written to the device behind the work directory, each."""
    tmp_mb: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """Size of /tmp and of the work directory together, a part of the memory; 256 by default, and
    at most half of the memory."""
    disk_mb: Annotated[int, Field(ge=1, le=16_777_216)] | None = None
    """Size of the work directory in MiB, on the instance's disk instead of in memory. It has a
    limit of its own then, and `tmp_mb` is that of /tmp alone."""

    @property
    def memory(self) -> int:
        """Memory that an agent must have for the job, in MiB."""
        return self.memory_mb or DEFAULT_MEMORY_MB

    @property
    def processes(self) -> int:
        """Most processes and threads that it may have."""
        return self.pids or DEFAULT_PIDS

    @property
    def tmp(self) -> int:
        """Size of /tmp in MiB, as agents set it."""
        return self.tmp_mb or max(1, min(DEFAULT_TMP_MB, self.memory // 2))

    @property
    def asked(self) -> frozenset[str]:
        """Names of the limits that are asked for, and that not every host can apply."""
        limits = ("cores", "cpus", "disk_mb", "io_bps", "memory_mb")
        return frozenset(name for name in limits if getattr(self, name) is not None)

    @property
    def work_mb(self) -> int:
        """Size of the work directory in MiB, as agents set it."""
        return self.disk_mb or self.tmp


class Retry(Input):
    """Number of attempts, and the waits between them."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """Maximum number of attempts."""
    backoff_s: Annotated[
        tuple[Annotated[float, Field(ge=0, le=43_200)], ...],
        Field(min_length=1, max_length=20),
    ] = (5, 30, 120, 600, 1800)
    """Upper bound of the wait after each attempt, with full jitter; the last one repeats. At most
    12 h, the limit of SQS."""


class JobFields(BaseModel):
    """The fields that describe a job: a submission sets them, and the API shows them."""

    model_config = INPUT

    name: JobName | None = None
    """Name for people; several jobs may have the same one."""
    type: TypeName | None = None
    """A job type instead of a command."""
    params: Params | None = None
    """Parameters of the type: a JSON object that its JSON Schema allows, at most 262,144 bytes."""
    command: Annotated[tuple[Argument, ...], Field(validate_default=True)] = ()
    """Program and arguments. With the environment they may have 2,080,768 bytes; each word counts 9
    more than its own."""
    queue: Name | None = None
    """The queue. Without it the filters of the queues choose, and if none is true it is the
    deployment's default queue."""
    priority: Lane = "default"
    """The lane of the queue."""
    resources: Resources = Resources.model_construct()
    """Limits of one attempt."""
    network: NetworkAccess = "none"
    """`none`: loopback only. `egress`: the internet. `host`: the instance's network."""
    env: Annotated[dict[EnvName, EnvValue], Field(max_length=500)] = {}
    """Environment variables."""
    secret_env: Annotated[dict[EnvName, SecretReference], Field(max_length=50)] = {}
    """Variables and names of secrets; the agent reads the values when an attempt starts."""
    mask_secrets: bool = True
    """Whether `***` stands in place of these values, line by line from 8 bytes on, in the job's
    output, result, progress and error. false for what has them by chance, such as binary data."""
    merge_stderr: bool = False
    """Whether the job's standard error is its standard output: all is `stdout` then, in the exact
    order in which it was written. Of two streams only the order within each is known."""
    stdin: Stdin | None = None
    """Text that the job reads from its standard input, at most 262,144 bytes; empty without it."""
    stdin_file: Sha256 | None = None
    """The SHA-256 of an uploaded file that the job reads from its standard input instead."""
    inputs: Inputs = ()
    """Files that are placed in the work directory before each attempt, at most 1,000. They are
    uploaded before the job is submitted (`POST /v1/files`)."""
    outputs: Outputs = ()
    """Globs of files in the work directory that are collected after each attempt, at most 20, such
    as `out/**`; `*`, `?` and `[a-z]` match within a name, `**` any number of directories. A
    directory means all files below it."""
    timeout_s: Timeout = 600
    """Time limit of one attempt: its processes get SIGTERM then, and SIGKILL 10 s later."""
    heartbeat_timeout_s: HeartbeatTimeout | None = None
    """An attempt that sends nothing to its agent (descriptor 3) for this many seconds is stopped,
    as by `timeout_s`."""
    restartable: bool = True
    """false: never started twice, even if its agent fails."""
    retry: Retry = Retry.model_construct()
    """Number of attempts, and the waits between them."""
    exit_codes: ExitCodes = ExitCodes.model_construct()
    """What exit codes of the job mean; any code but 0 is an ordinary failure otherwise. 75 of a job
    that has `requires`, or named a condition on its line, means that it waits."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=20)] = {}
    """Labels to find jobs by."""
    items: Annotated[int, Field(ge=0, le=1_000_000_000)] = 1
    """Number of work items in this job, for queue statistics. A type may count them in the params;
    it is left out then."""
    run_at: Moment | None = None
    """Earliest start time; a time in the past means now."""
    deadline: Moment | None = None
    """Latest end time: a job that has not started by then expires, a running job gets SIGTERM, and
    SIGKILL 10 s later."""
    requires: Annotated[tuple[ConditionName, ...], Field(max_length=5)] = ()
    """Conditions that must hold before the job starts."""
    concurrency: AnyConcurrency | None = None
    """Limits how many jobs with the same key run at once: a key of constants with its limits, or
    the name of a policy of joblane.toml."""
    array: Array | None = None
    """Makes a group of up to 10,000 jobs, one for each index: each has its own in
    `JOBLANE_ARRAY_INDEX`, and their number in `JOBLANE_ARRAY_SIZE`. With `values` each has its own
    in `JOBLANE_ARRAY_VALUE`: a text as it is, anything else as JSON."""
    target: TargetText | None = None
    """The agents that it is for, of those that serve its queue: `_any` of them (as without it),
    `_all`, `host:NAME` (or `NAME` alone, unless it may mean a label), or those with a label, such
    as `group:web.dev`. With `_all` or a label the
    job becomes a group of jobs, one for each agent that matches when it starts."""
    reply_timeout_s: Annotated[float, Field(ge=1, le=86_400)] | None = None
    """With a target: seconds that an agent has to start the job (60 by default); otherwise the job
    fails."""
    max_concurrency: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Of a group: maximum number of its jobs that run at once. An array with more than 1,000 jobs
    gets 1,000; without it all start at once."""
    max_failures: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Of a group with `max_concurrency`: no further jobs begin after more failures than this. Those
    that have begun, up to `max_concurrency` of them, still run."""
    tolerate: Tolerance | None = None
    """Of a group: how many of its jobs may fail, a number or a share such as `5 %`, so that it is
    `completed` all the same; none without it."""
    notify: NotifyField | None = None
    """Whom to notify when the job ends or blocks, or of the events that `on` names; without it,
    whom joblane.toml names for its queue. Of a group, the group itself is what they are notified
    about, and with `members` each of its jobs as well."""
    traceparent: str | None = None
    """W3C trace context that the job belongs to: `00-<trace-id>-<parent-id>-<flags>`. Without it
    that of the request's header, and without that one is made; so also if it is invalid."""
    tracestate: str | None = None
    """What comes with `traceparent`; invalid or missing without it, it is left out."""

    @property
    def needs(self) -> frozenset[str]:
        """What not every host can give it, in the words of `Heartbeat.lacks`."""
        return self.resources.asked | ({"egress"} if self.network == "egress" else set())

    @property
    def makes_group(self) -> bool:
        """Whether it becomes a group of jobs: a broadcast or an array."""
        return self.array is not None or is_broadcast(self.target)


def of_a_member(spec: JobFields) -> dict[str, Any]:
    """Fields that a member has otherwise than its group, whose submission or its own this is."""
    told = spec.notify is not None and spec.notify.members
    return _OF_A_GROUP | ({} if told else {"notify": None})


class Submission(JobFields):
    """Body of `POST /v1/jobs`: a `command`, or a `type` with its `params`."""

    @field_validator("params")
    @classmethod
    def _type_has_params(
        cls, value: dict[str, Any] | None, info: ValidationInfo
    ) -> dict[str, Any] | None:
        """A type needs params: who knows the types checks that, and that there is this one."""
        if value is not None and info.data.get("type", "invalid") is None:
            raise ValueError("allowed with a type only")
        return value

    @field_validator("command")
    @classmethod
    def _command_or_type(cls, words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """A job of a built-in type has both: admission fills in its command."""
        if info.data.get("type", "invalid") is not None:
            return words
        if not words:
            raise ValueError("required, at least the program, unless a type is given")
        if not words[0]:
            raise ValueError("must name a program first")
        if exec_bytes(words, {}) > MAX_EXEC_BYTES:
            raise ValueError(f"must take at most {MAX_EXEC_BYTES} bytes in all, 9 more a word")
        return words

    @field_validator("env")
    @classmethod
    def _fits_exec(cls, env: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        size = exec_bytes(info.data.get("command", ()), env)
        if size > MAX_EXEC_BYTES:
            raise ValueError(
                f"takes {size} bytes with the command; together they may take {MAX_EXEC_BYTES}, "
                "9 more a word or variable, or Linux will not start it"
            )
        return env

    @field_validator("secret_env")
    @classmethod
    def _set_once(cls, names: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if both := names.keys() & info.data.get("env", {}).keys():
            raise ValueError(f"{min(both)} is in env as well; set it once")
        return names

    @field_validator("stdin_file")
    @classmethod
    def _one_stdin(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("stdin") is not None:
            raise ValueError("not allowed with stdin; give one of them")
        return value

    @field_validator("exit_codes")
    @classmethod
    def _not_of_handlers(cls, codes: ExitCodes, info: ValidationInfo) -> ExitCodes:
        return codes if info.data.get("type") is None else codes.check_typed()

    @field_validator("array")
    @classmethod
    def _without_key(cls, array: Array | None, info: ValidationInfo) -> Array | None:
        if array is None:
            return None
        if info.data.get("concurrency") is not None:
            raise ValueError(
                "not allowed with concurrency: give max_concurrency in its place, or submit the "
                "jobs one by one"
            )
        if array.values is not None and info.data.get("params") is not None:
            raise ValueError("has values, which are the params; leave params out")
        return array

    @field_validator("target")
    @classmethod
    def _one_at_a_time(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value in (None, ANY):
            return None
        if info.data.get("array") is not None:
            raise ValueError("not allowed with array: its jobs run on any agents of the queue")
        if info.data.get("concurrency") is not None:
            raise ValueError("not allowed with concurrency; a group has max_concurrency")
        return value

    @field_validator("reply_timeout_s", "max_concurrency", "max_failures", "tolerate")
    @classmethod
    def _of_a_group(cls, value: Any, info: ValidationInfo) -> Any:
        """What comes before may be invalid itself, and is missing here then."""
        if value is None or not {"array", "target"} <= info.data.keys():
            return value
        array, target = info.data["array"], info.data["target"]
        if info.field_name == "reply_timeout_s":
            if target is None:
                raise ValueError("allowed with a target only")
            return value
        if array is None and not is_broadcast(target):
            raise ValueError(ONLY_OF_GROUPS)
        if info.field_name == "max_failures" and info.data.get("max_concurrency", 1) is None:
            if array is not None and array.jobs > AT_ONCE:
                return value
            raise ValueError("allowed with max_concurrency only: without it all jobs begin at once")
        return value

    @field_validator("deadline")
    @classmethod
    def _deadline_after_start(cls, value: str | None, info: ValidationInfo) -> str | None:
        run_at = info.data.get("run_at")
        if value is not None and run_at is not None and unix_ms(value) <= unix_ms(run_at):
            raise ValueError("must be after run_at")
        return value


class Batch(Input):
    """Body of `POST /v1/jobs/batch`; each entry is validated separately."""

    jobs: Annotated[tuple[Any, ...], Field(min_length=1, max_length=MAX_BATCH)]
    """1 to 100 submissions."""
