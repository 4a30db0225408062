"""Types of the fields of a submission, with their bounds.

Messages say what is allowed and never repeat the value: it may be confidential.
"""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationInfo,
)

from joblane.condition.names import check_requested
from joblane.formats.text import one_line
from joblane.formats.times import unix_ms
from joblane.state.secret_names import parse as parse_secret

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Linux refuses a longer single argument (MAX_ARG_STRLEN, 32 pages, its NUL included)."""

MAX_ENV_NAME = 256

MAX_JOB_NAME = 128
"""Characters of a job's name."""

MAX_ENV_VALUE_BYTES = MAX_ARGUMENT_BYTES - MAX_ENV_NAME - 1
"""`NAME=value` is one string of the kernel's, and must be as short as an argument."""

MAX_STDIN_BYTES: Final = 262_144
"""Longest `stdin` of a job, as UTF-8."""

MAX_TIMEOUT_S = 7 * 86_400
"""Longest run, a week, then `GRACE_S`: half of the time that a lane keeps a message (14 days)."""

GRACE_S = 10
"""Seconds between SIGTERM and SIGKILL for a job that is stopped: cancelled, timed out, at its
deadline, or interrupted. An attempt takes at most so much longer than its `timeout_s`."""

COMMAND: Final = "command"
"""Stands for jobs without a type where types are named, so that no type has this name."""

MAX_PARAMS_BYTES: Final = 262_144
"""Longest params of a job, as JSON in UTF-8."""


def text_bytes(text: str) -> int:
    """Size of a text in bytes, as UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _string(value: str, most: int) -> str:
    # A character has four bytes at most, and a command 200,000 words.
    if len(value) * 4 > most and text_bytes(value) > most:
        raise ValueError(f"must be at most {most} bytes")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def json_bytes(value: object) -> int:
    """Size of a JSON value in bytes, in its shortest form in UTF-8."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text_bytes(text)


def _type_name(name: str) -> str:
    if name == COMMAND:
        raise ValueError(f"must not be {COMMAND}, which stands for jobs without a type")
    return name


def _params(params: dict[str, Any]) -> dict[str, Any]:
    if (size := json_bytes(params)) > MAX_PARAMS_BYTES:
        raise ValueError(f"takes {size} bytes as JSON; at most {MAX_PARAMS_BYTES} are allowed")
    return params


def _not_reserved(name: str) -> str:
    if name.startswith("JOBLANE_"):
        raise ValueError("names that start with JOBLANE_ are set by the agent")
    return name


def _reference(value: str) -> str:
    from joblane.target.facts import references  # cold starts need it for nothing

    if references(value):  # a tenant's jobs on other instances would read other secrets
        raise ValueError("must not refer to a fact of the agent; name the secret itself")
    parse_secret(value)
    return value


def _stdin(text: str) -> str:
    if text_bytes(text) > MAX_STDIN_BYTES:
        raise ValueError(
            f"must be at most {MAX_STDIN_BYTES} bytes; upload a longer one, and give its SHA-256 "
            "as stdin_file"
        )
    return text


def _moment(value: str) -> str:
    unix_ms(value)
    return value


def _cores(value: str) -> str:
    """Return the cores in ascending order, as the agent takes them."""
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
    return ",".join(sorted(value.split(","), key=lambda part: int(part.partition("-")[0])))


Argument = Annotated[str, AfterValidator(partial(_string, most=MAX_ARGUMENT_BYTES))]
EnvName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=MAX_ENV_NAME),
    AfterValidator(_not_reserved),
]
TypeName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$"), AfterValidator(_type_name)
]
"""The name of a job type, such as `sync-tickets`."""
Params = Annotated[dict[str, Any], AfterValidator(_params)]
JobName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_JOB_NAME), AfterValidator(one_line)
]
EnvValue = Annotated[str, AfterValidator(partial(_string, most=MAX_ENV_VALUE_BYTES))]
LabelKey = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,63}$")]
LabelValue = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{0,255}$")]
Stdin = Annotated[str, AfterValidator(_stdin)]
Cores = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"),
    AfterValidator(_cores),
]
ConditionName = Annotated[str, AfterValidator(check_requested)]
SecretReference = Annotated[str, AfterValidator(_reference)]
"""Such as `secretsmanager:joblane/main/db#password` or `ssm:/joblane/main/db-password`."""
Moment = Annotated[str, AfterValidator(_moment)]
"""RFC 3339 in UTC, such as `2026-11-21T02:07:09Z`."""
Timeout = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S)]
"""Seconds."""
HeartbeatTimeout = Annotated[float, Field(ge=1, le=MAX_TIMEOUT_S)]
"""Seconds."""
NetworkAccess = Literal["none", "egress", "host"]


INPUT: Final = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
"""How parts of a request are validated."""


class Input(BaseModel):
    """Part of a request: unknown fields are refused, and 5 is not "5"."""

    model_config = INPUT


STORED: Final = "stored"
"""Context of the validation of a stored submission, whose unknown fields are ignored."""


def _inputs(values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
    if not values:
        return values
    from joblane.files.models import check_inputs  # few jobs have files

    return check_inputs(values, stored=info.context == STORED)


def _outputs(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        return values
    from joblane.files.models import check_outputs

    return check_outputs(values)


def _summary(value: object) -> object:
    from joblane.files.models import OutputSummary

    return OutputSummary.model_validate(value)


class _SchemaOf:
    """Takes the JSON schema of a field from `joblane.files.models`, which few jobs need."""

    def __init__(self, name: Literal["inputs", "outputs", "summary"]) -> None:
        self.name = name

    def __get_pydantic_json_schema__(
        self, _: object, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        from joblane.files import models

        return handler(models.schema_of(self.name))


if TYPE_CHECKING:
    from joblane.files.models import InputFile, OutputSummary

    Inputs = tuple[InputFile, ...]
    Outputs = tuple[str, ...]
    OutputFiles = OutputSummary
else:
    Inputs = Annotated[tuple[Any, ...], AfterValidator(_inputs), _SchemaOf("inputs")]
    Outputs = Annotated[tuple[Any, ...], AfterValidator(_outputs), _SchemaOf("outputs")]
    OutputFiles = Annotated[Any, AfterValidator(_summary), _SchemaOf("summary")]
