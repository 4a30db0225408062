"""Policies of keys: how many jobs run and wait at once, and what happens to more."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from joblane.deployment.names import Name
from joblane.key.segments import Segments, Template

MAX_ACTIVE = 100
"""Most slots of a key. Its row is written with each change, and holds the id of each job in it."""

MAX_QUEUED = 1000

WhenFull = Literal["reject", "coalesce", "replace-oldest"]
StalePolicy = Literal["fail-stale", "block"]


class KeyLimits(BaseModel):
    """The limits of a key."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    max_active: Annotated[int, Field(ge=1, le=MAX_ACTIVE)] = 1
    """Jobs of a key that have a slot at once; a job has it up to its end, through retries."""
    max_queued: Annotated[int, Field(ge=0, le=MAX_QUEUED)] = 0
    """Jobs that wait for a slot. A job is accepted while `active + queued` is less than
    `max_active + max_queued`."""
    when_full: WhenFull = "reject"
    """What happens to another job: `reject` it, `coalesce` it with one that is there, or
    `replace-oldest`, which skips the first one that waits, else one that has not started."""
    stale_policy: StalePolicy = "block"
    """What happens to a job whose agent was lost. `block`: another agent runs it again, in the same
    slot. `fail-stale`: it ends as stale if another job waits for the slot."""


class Concurrency(KeyLimits):
    """A key of constants with its limits, in a submission."""

    key: Segments
    """Strings, numbers and booleans that name the key, such as `["customer", "acme"]`."""

    @property
    def limits(self) -> KeyLimits:
        """The limits alone."""
        return KeyLimits(**self.model_dump(exclude={"key"}))


AnyConcurrency = Annotated[
    Annotated[Concurrency, Tag("[key]")] | Annotated[Name, Tag("[name]")],
    Discriminator(lambda value: "[name]" if isinstance(value, str) else "[key]"),
]
"""What a submission says about its key: the key with its limits, or the name of a policy of
joblane.toml."""


class KeyTemplate(KeyLimits):
    """A key with its limits, in a job type or in joblane.toml."""

    key: Template
    """Strings, numbers and booleans; a string that begins with `/` is a JSON Pointer: of a job
    type into its params, of a policy in joblane.toml into the submission."""

    @property
    def limits(self) -> KeyLimits:
        """The limits alone."""
        return KeyLimits(**self.model_dump(exclude={"key"}))


def read_policies(text: str) -> dict[str, KeyTemplate]:
    """Read the policies of joblane.toml, as functions get them: JSON by name."""
    return TypeAdapter(dict[str, KeyTemplate]).validate_json(text)
