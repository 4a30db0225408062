"""Job types: what `joblane types push` stores about a typed handler, and its validation.

A definition is written once under a version and never changed, so that all attempts of a job run
with the version it was accepted with, until somebody restarts it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints

from joblane.audit.who import Who
from joblane.deployment.names import Architecture, Lane, Name
from joblane.files.fields import Sha256
from joblane.formats.pointer import parse_pointer
from joblane.job.deadlines import DeadlineAfter
from joblane.job.disk import MOST_BUNDLE_MB
from joblane.job.exit_codes import ExitCodes
from joblane.job.fields import (
    EnvName,
    EnvValue,
    HeartbeatTimeout,
    Input,
    NetworkAccess,
    Timeout,
    json_bytes,
)
from joblane.job.spec import Resources, Retry
from joblane.key.policy import KeyLimits
from joblane.key.segments import Template

MAX_SCHEMA_BYTES: Final = 65_536
"""Longest JSON Schema, as JSON in UTF-8. DynamoDB stores at most 400 KB in an item, and a function
reads the item of a type for each new job."""

MAX_BUNDLE_BYTES: Final = 250_000_000
"""Largest bundle, the zip file with a handler and its dependencies."""


_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Check what needs no validator of schemas; the service checks the rest."""
    if json_bytes(schema) > MAX_SCHEMA_BYTES:
        raise ValueError(f"must take at most {MAX_SCHEMA_BYTES} bytes as JSON")
    for name, value in _members(schema):
        if name in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            raise ValueError(f"must refer to itself only: {name} must begin with #")
    return schema


def _params_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "object":
        raise ValueError('must have "type": "object": params are a JSON object')
    return _schema(schema)


def _members(value: object) -> Iterator[tuple[str, object]]:
    """All members of all objects in a JSON value."""
    level = [value]
    while level:
        entry = level.pop()
        if isinstance(entry, dict):
            yield from entry.items()
            level.extend(entry.values())
        elif isinstance(entry, list):
            level.extend(entry)


Entry = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
        r":[A-Za-z_][A-Za-z0-9_]*$",
        max_length=255,
    ),
]
"""Where a handler is: `package.module:function`."""


def _pointer(text: str) -> str:
    parse_pointer(text)
    return text


Pointer = Annotated[str, StringConstraints(max_length=512), AfterValidator(_pointer)]
"""A JSON Pointer into the params, such as `/tickets`."""


class TypeDefaults(Input):
    """Fields of a submission that the type sets where a submission does not."""

    queue: Name | None = None
    """The queue."""
    priority: Lane | None = None
    """The lane of the queue."""
    timeout_s: Timeout | None = None
    """Time limit of one attempt."""
    heartbeat_timeout_s: HeartbeatTimeout | None = None
    """Longest time without a message from the handler."""
    deadline_s: DeadlineAfter | None = None
    """Seconds to the `deadline` of a job, from its submission or its `run_at`."""
    retry: Retry | None = None
    """Number of attempts, and the waits between them."""
    exit_codes: Annotated[ExitCodes, AfterValidator(ExitCodes.check_typed)] | None = None
    """What exit codes of the handler mean besides 65 (`PermanentError`) and 75 (`Job.block`)."""
    resources: Resources | None = None
    """Limits of one attempt."""
    network: NetworkAccess | None = None
    """The network of the job."""
    restartable: bool | None = None
    """false: never started twice, even if its agent fails."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, max_length=500)
    """Environment variables; those of the submission take precedence."""


class TypeKey(KeyLimits):
    """The key of a type's jobs, and its limits."""

    segments: Template
    """Strings, numbers and booleans; a string that begins with `/` is a JSON Pointer into the
    params. Jobs of the type with the same values have the same key."""

    @property
    def limits(self) -> KeyLimits:
        """The limits alone."""
        return KeyLimits(**self.model_dump(exclude={"segments"}))


class TypeContract(Input):
    """What a submission of a type must be, and how it is counted."""

    params_schema: Annotated[dict[str, Any], AfterValidator(_params_schema)]
    """JSON Schema (draft 2020-12) of the params, an object. It refers to itself only."""
    result_schema: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None
    """JSON Schema of the result; without one any JSON is a result."""
    description: Annotated[str, Field(max_length=1000)] = ""
    """What the type does, for people."""
    defaults: TypeDefaults = TypeDefaults()
    """Fields that a submission need not set."""
    items: Pointer | None = None
    """JSON Pointer to an array in the params whose length is the number of work items in a job,
    for queue statistics; a job without the array counts as one. Without a pointer a submission
    sets `items`."""
    key: TypeKey | None = None
    """What limits how many jobs of this type run at once."""


class TypeDefinition(TypeContract):
    """A type whose handler is a Python function in a bundle."""

    entry: Entry
    """The handler, `package.module:function`."""
    python: Annotated[str, StringConstraints(pattern=r"^3\.(1[1-9]|[2-9][0-9])$")]
    """Version of Python that runs it, such as `3.11`."""
    bundles: Annotated[dict[Architecture, Sha256], Field(min_length=1)]
    """SHA-256 of the bundle for each architecture of the instances that may run it."""
    bundle_mb: Annotated[int, Field(ge=1, le=MOST_BUNDLE_MB)] = MOST_BUNDLE_MB
    """What the largest bundle takes on an instance's disk while it is unpacked, in MiB: the zip
    file and its files, 4 KiB more for each file. Without it, as much as a bundle may take. Agents
    reserve it before they claim a job."""


@dataclass(frozen=True, slots=True)
class TypeVersion:
    """A version of a type, which is never changed."""

    name: str
    version: int
    """1 for the first one; rises with every change, also after the type was removed."""
    definition: TypeDefinition
    pushed_at_ms: int
    """Unix milliseconds."""
    pushed_by: Who
