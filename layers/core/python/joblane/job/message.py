"""Messages: a wake-up in a lane, which names a job, and a command in an agent's inbox."""

import re
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from joblane.deployment.log_level import LogLevel
from joblane.deployment.names import LanePath, Name, parse_lane_path
from joblane.errors import Failure
from joblane.job.disk import OUTPUT_MB
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.state.trace import TraceContext, job_trace

if TYPE_CHECKING:
    from joblane.job.head import Head

JOB_ID_PATTERN = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
"""A ULID: 26 characters of Crockford's base 32."""

JobId = Annotated[str, StringConstraints(pattern=JOB_ID_PATTERN)]


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job, or of a record of the audit trail: a ULID."""
    return re.fullmatch(JOB_ID_PATTERN, text) is not None


class NotOurs(Failure):
    """A message that Joblane did not write; the text says why."""


class _Body(BaseModel):
    """A body of version 1 may gain fields: what a reader does not know, it ignores."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    v: Literal[1] = 1

    def encode(self) -> str:
        """Encode the body as JSON."""
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def decode(cls, body: str) -> Self:
        """Inverse of `encode`. Raises NotOurs naming the wrong field, not its value."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])[:64]
            raise NotOurs(f"{place + ': ' if place else ''}{first['msg']}") from None


FOLLOWED_S = 40.0
"""How long after each command `follow` an agent takes a job's output for read as it comes: two
commands of a reader's function, so that one that is late or lost changes nothing."""


class Message(_Body):
    """Body of a message in a lane."""

    job_id: JobId
    tenant: Name
    lane: LanePath
    """The job's queue and lane; also in an inbox, which tells neither."""
    edit: int = 0
    """The job's edits so far. A job that was edited since has another message, and is claimed by
    that one only."""
    memory_mb: int = DEFAULT_MEMORY_MB
    """Memory that the job asks for, in MiB."""
    disk_mb: int = OUTPUT_MB
    """What an attempt puts on the host's disk at most, in MiB (`joblane.job.disk`)."""
    work_mb: int = 0
    """How much of that is its work directory, which may be on a disk of its own."""
    caller_trace: TraceContext | None = None
    """Trace context that the job was submitted with."""
    first_sent_ms: int | None = None
    """When the first message was sent that this one replaces, as agents replace them again and
    again, in Unix milliseconds; None if it replaces none."""

    @property
    def queue(self) -> str:
        """The job's queue."""
        return parse_lane_path(self.lane)[0]

    def is_outdated(self, head: "Head") -> bool:
        """Whether its job was edited since it was sent: another message starts that."""
        return (self.lane, self.edit) != (head.lane_path, head.edit)

    @property
    def trace(self) -> TraceContext:
        """The trace context of the job."""
        return job_trace(self.job_id, self.caller_trace)

    @property
    def trace_id(self) -> str:
        """The trace-id of the job."""
        return self.trace.trace_id


class Command(_Body):
    """Body of a message in an agent's inbox; a command may arrive twice."""

    command: Literal["cancel", "cordon", "drain", "follow", "log-level", "uncordon"]
    """`cancel`: stop a running job. `follow`: somebody reads the output of a running job as it
    comes, so ship it sooner. `drain`: finish and exit, as after SIGTERM. `cordon`: take no more
    jobs, and stay. `uncordon`: take jobs again. `log-level`: log from another level on for a
    while."""
    job_id: JobId | None = None
    """The job, with `cancel` and `follow` only."""
    caller_trace: TraceContext | None = None
    """As that of `Message`."""
    level: LogLevel | None = None
    """With `log-level` only, as the next one."""
    until_ms: int | None = None
    """Unix milliseconds: then the level is the default again."""

    @property
    def trace(self) -> TraceContext | None:
        """The trace context of the job; None for a command that names none."""
        return None if self.job_id is None else job_trace(self.job_id, self.caller_trace)

    @model_validator(mode="after")
    def _job_where_one_is_meant(self) -> Self:
        if (self.job_id is None) == (self.command in {"cancel", "follow"}):
            raise ValueError("job_id is required by cancel and follow, and not allowed otherwise")
        for given in (self.level, self.until_ms):
            if (given is None) == (self.command == "log-level"):
                raise ValueError("level and until_ms are required by log-level, and by no other")
        return self
