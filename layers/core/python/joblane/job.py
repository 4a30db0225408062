"""A job and its output as everybody reads them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from joblane.audit import WhoView
from joblane.lifecycle import Outcome, State
from joblane.model import Resources, Retry, SleepParams
from joblane.names import Lane


class Transition(BaseModel):
    """One line of a job's timeline."""

    model_config = ConfigDict(defer_build=True)

    state: State
    at: str
    """RFC 3339, UTC, milliseconds."""
    attempt: int
    reason: str
    agent: str | None = None


class Job(BaseModel):
    """A job as the API answers it: what was submitted, and what became of it."""

    model_config = ConfigDict(defer_build=True)

    id: str
    tenant: str
    state: State
    reason: str
    attempt: int
    epoch: int
    """Counts claims; grows with every start."""
    outcome: Outcome | None
    """How the last attempt ended."""
    exit_code: int | None
    signal: int | None
    usage: dict[str, Any] | None
    agent: str | None
    queue: str
    priority: Lane
    type: str | None
    params: SleepParams | None
    command: tuple[str, ...]
    """What runs: as submitted, or what the type makes of its params."""
    resources: Resources
    network: str
    env: dict[str, str]
    secret_env: dict[str, str]
    """Names of secrets, as submitted; their values are never here."""
    timeout_s: float
    restartable: bool
    retry: Retry
    labels: dict[str, str]
    items: int
    run_at: str | None
    deadline: str | None
    requires: tuple[str, ...]
    condition: str | None
    """What a blocked job waits for."""
    submitted_by: WhoView | None
    cancel_requested: str | None
    """Why the attempt that runs was asked to end."""
    hidden: bool
    """Whether lists leave it out."""
    resubmit_of: str | None
    """Id of the job that this one does again."""
    resubmitted_as: str | None
    """Id of the job that does this one again; the latest, if there are several."""
    created_at: str
    started_at: str | None
    ended_at: str | None
    next_at: str | None
    timeline: tuple[Transition, ...]
    abridged: bool
    """Whether `command` and `env` are cut short here; `GET /v1/jobs/{id}` shows them whole."""


class Cancelled(Job):
    """A job after a request to cancel it."""

    note: str
    """What happens now, in a sentence."""


class LogRecord(BaseModel):
    """A piece of a job's output, a line where it has lines; `seq` counts within an attempt."""

    model_config = ConfigDict(defer_build=True)

    attempt: int
    seq: int
    stream: Literal["stdout", "stderr", "joblane"]
    """`joblane` marks our own words, such as "output cap reached"."""
    time: str
    text: str | None = None
    base64: str | None = None
    """Bytes that are not UTF-8."""


class LogEnd(BaseModel):
    """The end of a job's output, as a stream of events tells it."""

    model_config = ConfigDict(defer_build=True)

    state: State
    reason: str
    exit_code: int | None
