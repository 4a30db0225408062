"""Messages: a wake-up in a lane, which names a job, and a command in an agent's inbox."""

import re
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from joblane.deployment.names import Name

JOB_ID_PATTERN = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
"""A ULID: 26 characters of Crockford's base 32."""


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job, or of a record of the audit trail: a ULID."""
    return re.fullmatch(JOB_ID_PATTERN, text) is not None


_Model = TypeVar("_Model", bound=BaseModel)


class NotOurs(Exception):
    """A message that Joblane did not write; the text says why."""


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
    """Body of a message in an agent's inbox; a command may arrive twice."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Literal[1] = 1
    command: Literal["cancel", "drain"]
    """`cancel`: stop a running job. `drain`: finish and exit, as after SIGTERM."""
    job_id: Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)] | None = None
    """The job to stop; None with `drain`."""

    @model_validator(mode="after")
    def _job_where_one_is_meant(self) -> Self:
        if (self.job_id is None) != (self.command == "drain"):
            raise ValueError("job_id is required by cancel and not allowed with drain")
        return self

    def encode(self) -> str:
        """Encode the body as JSON."""
        return self.model_dump_json()


def decode(body: str) -> Message:
    """Decode a message's body. Raises NotOurs naming the wrong field, not its value."""
    return _decode(Message, body)


def decode_command(body: str) -> Command:
    """Decode a command's body. Raises NotOurs naming the wrong field, not its value."""
    return _decode(Command, body)


def _decode(model: type[_Model], body: str) -> _Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])[:64]
        raise NotOurs(f"{place + ': ' if place else ''}{first['msg']}") from None
