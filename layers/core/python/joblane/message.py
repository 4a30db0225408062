"""The message in a lane: a wake-up call that names a job; the table holds the truth."""

from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from joblane.names import Name

JOB_ID_PATTERN = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
"""A ULID: 26 characters of Crockford's base 32."""


_Model = TypeVar("_Model", bound=BaseModel)


class NotOurs(Exception):
    """A message that Joblane did not write; the text says what is wrong with it."""


class Message(BaseModel):
    """Body of a message in a lane."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Literal[1] = 1
    job_id: Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]
    tenant: Name

    def encode(self) -> str:
        """Encode the body as JSON."""
        return self.model_dump_json()


class Command(BaseModel):
    """Body of a message in an agent's inbox; every command may arrive twice."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Literal[1] = 1
    command: Literal["cancel", "drain"]
    """`cancel`: end a job that runs here. `drain`: leave, as after SIGTERM."""
    job_id: Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)] | None = None
    """The job to end; None with `drain` alone."""

    @model_validator(mode="after")
    def _job_where_one_is_meant(self) -> Self:
        if (self.job_id is None) != (self.command == "drain"):
            raise ValueError("job_id is for cancel, and for cancel alone")
        return self

    def encode(self) -> str:
        """Encode the body as JSON."""
        return self.model_dump_json()


def decode(body: str) -> Message:
    """Read a message's body. Raises NotOurs, naming what is wrong but not what it says."""
    return _decode(Message, body)


def decode_command(body: str) -> Command:
    """Read a command's body. Raises NotOurs, naming what is wrong but not what it says."""
    return _decode(Command, body)


def _decode(model: type[_Model], body: str) -> _Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:64]
        raise NotOurs(f"{place + ': ' if place else ''}{first['msg']}") from None
