"""A job as its submitter writes it: the models of what the API is sent.

Validation says which field is wrong and what is allowed, and never repeats the value: a
payload may hold what its owner would not like to find in a log.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)

from joblane.conditions import ConditionName
from joblane.names import Lane, Name
from joblane.secret_names import parse as parse_secret
from joblane.times import unix_ms

MAX_BODY_BYTES = 3_000_000
"""Largest body of a request, a job's or a batch's.

Lambda takes an event of 6 MB (6,291,556 bytes; API Gateway would take 10 MB). The event holds
the body as a JSON string, in which every quote and backslash counts twice, so twice this limit
must fit: 291,556 bytes are left for headers (10 KB at most), path and claims. The answer of `get`
has the same bound, and uses the rest for its timeline.
"""

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Linux refuses a longer single argument (MAX_ARG_STRLEN, 32 pages, its NUL included)."""

MAX_ENV_NAME = 256

MAX_ENV_VALUE_BYTES = MAX_ARGUMENT_BYTES - MAX_ENV_NAME - 1
"""`NAME=value` is one string of the kernel's, and must be as short as an argument."""

MAX_EXEC_BYTES = 2 * 1024 * 1024 - 16 * 1024
"""Most that a command and its environment may take together, as `exec_bytes` counts it.

Linux grants them a quarter of the stack's soft limit, and 8 MB is the default of that limit. What
is held back is for the agent's own variables (under 1 KB) and for the file name, which counts
as well: up to 4 KB, and again for the interpreter of a script.
"""

MAX_TIMEOUT_S = 7 * 86_400
"""Longest run, a week: within what a lane keeps a message for (14 days), with as much to spare."""

MAX_BATCH = 100
"""Most jobs of one `POST /v1/jobs/batch`."""

LISTED_CHARS = 500
"""Characters of a command with its environment that are shown everywhere; a longer one is cut
short but where one job is read, so that a page of a hundred stays small."""

LOG_PAGE_MAX = 1000


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _string(value: str, most: int) -> str:
    if _size(value) > most:
        raise ValueError(f"must be at most {most} bytes")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _argument(value: str) -> str:
    return _string(value, MAX_ARGUMENT_BYTES)


def _env_value(value: str) -> str:
    return _string(value, MAX_ENV_VALUE_BYTES)


def exec_bytes(words: Iterable[str], env: Mapping[str, str]) -> int:
    """Bytes that Linux counts for a command and its environment.

    Each string with its NUL and the pointer to it (`bprm_stack_limits` in fs/exec.c).
    """
    strings = [*words, *(f"{name}={value}" for name, value in env.items())]
    return sum(_size(text) + 1 + 8 for text in strings)


def _not_reserved(name: str) -> str:
    if name.startswith("JOBLANE_"):
        raise ValueError("names that start with JOBLANE_ are set by the agent")
    return name


def _reference(value: str) -> str:
    parse_secret(value)
    return value


def _moment(value: str) -> str:
    unix_ms(value)
    return value


def _cores(value: str) -> str:
    seen: set[int] = set()
    for part in value.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high:
            raise ValueError("must rise, such as 0-3")
        span = set(range(low, high + 1))
        if seen & span:
            raise ValueError("must name each core once")
        seen |= span
    return value


Argument = Annotated[str, AfterValidator(_argument)]
EnvName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=MAX_ENV_NAME),
    AfterValidator(_not_reserved),
]
EnvValue = Annotated[str, AfterValidator(_env_value)]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,63}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{0,255}$")]
Cores = Annotated[
    str,
    StringConstraints(pattern=r"^\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*$"),
    AfterValidator(_cores),
]
SecretReference = Annotated[str, AfterValidator(_reference)]
"""Such as `secretsmanager:joblane/main/db#password` or `ssm:/joblane/main/db-password`."""
Moment = Annotated[str, AfterValidator(_moment)]
"""RFC 3339 in UTC, such as `2026-11-21T02:07:09Z`."""


class _Input(BaseModel):
    """Part of a request: unknown fields are refused, and 5 is not "5"."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Resources(_Input):
    """What one run may use; a limit that cannot be applied fails the job before it starts."""

    cpus: Annotated[float, Field(gt=0, le=1024)] | None = None
    """CPU bandwidth: 0.5 is half of one core."""
    memory_mb: Annotated[int, Field(ge=4, le=16_777_216)] | None = None
    pids: Annotated[int, Field(ge=1, le=4_194_304)] | None = None
    cores: Cores | None = None
    """Cores to run on, such as `0-2,5`."""
    io_bps: Annotated[int, Field(ge=1024)] | None = None
    """Bytes a second read from and written to the device behind the work directory, each."""
    tmp_mb: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """Size of /tmp and of the work directory, each."""


class Retry(_Input):
    """How often and how late a failed job is tried again."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    backoff_s: Annotated[
        tuple[Annotated[float, Field(ge=0, le=43_200)], ...],
        Field(min_length=1, max_length=20),
    ] = (5, 30, 120, 600, 1800)
    """Upper bound of the wait after each attempt, jittered; at most 12 h, SQS's own limit."""


class SleepParams(_Input):
    """Parameters of the built-in job type `sleep`: for tests, demos and drills."""

    ms: Annotated[int, Field(ge=0, le=MAX_TIMEOUT_S * 1000)]
    """Milliseconds to sleep in each attempt."""
    fail_first: Annotated[int, Field(ge=0, le=100)] = 0
    """How many attempts fail, after having slept, before one succeeds."""

    def argv(self) -> tuple[str, ...]:
        """The command that does it, for a sandbox: it counts its attempts by their number."""
        script = 'sleep "$1"; test "$JOBLANE_ATTEMPT" -gt "$2"'
        return ("sh", "-c", script, "sleep", f"{self.ms / 1000:.3f}", str(self.fail_first))


class Submission(_Input):
    """Body of `POST /v1/jobs`: a `command`, or a `type` with its `params`."""

    type: Literal["sleep"] | None = None
    params: Annotated[SleepParams | None, Field(validate_default=True)] = None
    command: Annotated[tuple[Argument, ...], Field(max_length=1000, validate_default=True)] = ()
    queue: Name | None = None
    priority: Lane = "default"
    resources: Resources = Resources()
    network: Literal["none", "egress", "host"] = "none"
    env: Annotated[dict[EnvName, EnvValue], Field(max_length=500)] = {}
    secret_env: Annotated[dict[EnvName, SecretReference], Field(max_length=50)] = {}
    """Variables whose values the agent reads when an attempt starts; only names stand here."""
    timeout_s: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S)] = 600
    restartable: bool = True
    retry: Retry = Retry()
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=20)] = {}
    items: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1
    """How many things of its owner's it does, such as tickets: queues are counted in these too."""
    run_at: Moment | None = None
    """The job does not start before; a moment that has passed means now."""
    deadline: Moment | None = None
    """A job that has not started by then expires, and one that runs is told to end."""
    requires: Annotated[tuple[ConditionName, ...], Field(max_length=5)] = ()
    """Conditions that must hold before the job starts."""

    @field_validator("params")
    @classmethod
    def _type_has_params(cls, value: SleepParams | None, info: ValidationInfo) -> object:
        if "type" in info.data and (info.data["type"] is None) != (value is None):
            raise ValueError("go with a type" if value else "required by this type")
        return value

    @field_validator("command")
    @classmethod
    def _command_or_type(cls, words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        """Fill in the command of a type, so that whoever runs a job need not know its type."""
        if info.data.get("type", "invalid") is not None:
            params = info.data.get("params")
            own = words if params is None else params.argv()
            if words not in ((), own):  # a job that is read back has both
                raise ValueError("must be left out when a type is given")
            return own
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
            raise ValueError(f"{min(both)} stands in env as well; name it once")
        return names

    @field_validator("deadline")
    @classmethod
    def _deadline_after_start(cls, value: str | None, info: ValidationInfo) -> str | None:
        run_at = info.data.get("run_at")
        if value is not None and run_at is not None and unix_ms(value) <= unix_ms(run_at):
            raise ValueError("must be after run_at")
        return value


class Batch(_Input):
    """Body of `POST /v1/jobs/batch`; each entry is judged for itself."""

    jobs: Annotated[tuple[Any, ...], Field(min_length=1, max_length=MAX_BATCH)]
