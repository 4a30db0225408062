"""What a handler gets beside its params: the job that it runs as."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias

from joblane.handler.errors import BlockedError, SkippedError
from joblane.handler.line import Line, LineError, RefusedError

if TYPE_CHECKING:
    import logging

MAX_MESSAGE = 200
"""Characters of a message of progress."""

MAX_STEP = 60
"""Characters of the name of a step."""

COMPLETE = 100

Stopping: TypeAlias = Literal["cancel", "drain", "timeout", "deadline"]


@dataclass(frozen=True, slots=True)
class Context:
    """Which job and attempt this is."""

    job_id: str = ""
    """The job's ULID."""
    attempt: int = 1
    """Number of the attempt, from 1."""
    slot: str | None = None
    """`<grant>.<epoch>` of a job with a key; rises per key, so that other systems can refuse what
    an earlier holder sends late. None without a key."""
    key: tuple[str | int | float | bool, ...] = ()
    """The segments of the key that its type or its submission declares, with the values of this
    job; empty without one, and for a policy of joblane.toml."""
    type: str = ""
    """Name of the job type."""
    version: int = 0
    """Version of the job type that the job runs with."""
    traceparent: str = ""
    """W3C trace context of this attempt; also in the variable TRACEPARENT."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The agent's answer, with all that it says about the job."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Read an agent's answer; what is missing has its default."""
        names = ("job_id", "attempt", "slot", "type", "version", "traceparent")
        given = {name: answer[name] for name in names if answer.get(name) is not None}
        return cls(**given, key=tuple(answer.get("key") or ()), data=dict(answer))


class Job:
    """The running job: progress, log, cancellation, conditions.

    `Job()` has no agent: in a test of a handler it takes and ignores everything.
    """

    def __init__(self, line: Line | None = None, context: Context | None = None) -> None:
        self._line = line
        self._context = context or Context()
        self._cancelled = False
        self._stopping: Stopping | None = None

    @property
    def context(self) -> Context:
        """Which job and attempt this is."""
        return self._context

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self._context.job_id

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 1."""
        return self._context.attempt

    @property
    def slot(self) -> str | None:
        """Token of the key's slot, see `Context.slot`."""
        return self._context.slot

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to stop (SIGTERM): cancelled, timed out, or an agent that ends.

        A handler that looks at it returns early; one that does not is killed after 10 s.
        """
        return self._cancelled

    @property
    def stopping(self) -> Stopping | None:
        """Why the job was asked to stop; None while `cancelled` is false.

        `cancel`: somebody cancelled it. `drain`: its agent ends, and a job that may start
        twice starts anew. `timeout`: `timeout_s` or `heartbeat_timeout_s` has passed. `deadline`:
        its deadline.
        """
        if self._cancelled and self._stopping is None:
            self._stopping = self._ask_why()
        return self._stopping

    def cancel(self, why: Stopping | None = None) -> None:
        """Set `cancelled`, as SIGTERM does, and for a test `stopping`."""
        self._cancelled = True
        self._stopping = why or self._stopping

    def _ask_why(self) -> Stopping:
        """Ask the agent, and not in the handler of the signal: it may interrupt another request.

        Who has asked the job to stop has said why before; the time limit of an attempt is kept by
        the sandbox alone, which says nothing.
        """
        if self._line is None:
            return "cancel"
        try:
            said: Stopping | None = self._line.ask({"stopping": True}).get("stopping")
        except (RefusedError, LineError):
            return "cancel"
        return said or "timeout"

    @cached_property
    def log(self) -> "logging.Logger":
        """A logger that writes to stderr, which is part of the job's output.

        Each line of it has the record's level, for `joblane logs --level`. Records below INFO are
        dropped, unless `job.log.setLevel` says otherwise. Other loggers' records have levels with
        `logging.basicConfig(handlers=job.log.handlers)`.
        """
        from joblane.handler.log import make_logger  # a handler that does not log starts faster

        return make_logger(marked=self._line is not None)

    def progress(
        self,
        percent: float | None = None,
        message: str = "",
        *,
        step: str = "",
        current: int | None = None,
        total: int | None = None,
    ) -> None:
        """Report progress: what the job is at, and how far.

            job.progress(40, "page 2 of 5")
            job.progress(step="upload", current=3, total=20)

        `percent` is from 0 to 100; without it, it follows from `current` and `total`. A message has
        up to 200 characters, a step up to 60. The job's view shows the latest within 10 s. Raises
        ValueError for other numbers.
        """
        if percent is not None and not 0 <= percent <= COMPLETE:
            raise ValueError("percent must be between 0 and 100")
        if current is not None and current < 0:
            raise ValueError("current must be 0 or more")
        if total is not None and (current is None or total < current):
            raise ValueError("total needs a current that is not more than it")
        said = {
            "percent": percent,
            "message": message[:MAX_MESSAGE] or None,
            "step": step[:MAX_STEP] or None,
            "current": current,
            "total": total,
        }
        if given := {name: part for name, part in said.items() if part is not None}:
            self._tell({"progress": given})

    def heartbeat(self) -> None:
        """Say that the job is still working, for a type with `heartbeat_timeout_s`."""
        self._tell({"heartbeat": True})

    def block(self, condition: str | None = None) -> NoReturn:
        """End this attempt; the job runs again once the condition holds.

        Without one it waits for the application of its queue (`app:QUEUE`). The attempt does not
        count. Raises ValueError for a condition that the job may not name.
        """
        if condition is not None and self._line is not None:
            try:
                self._line.ask({"block": condition})
            except RefusedError as refused:
                raise ValueError(str(refused)) from refused
        raise BlockedError(condition or "")

    def skip(self, why: str) -> NoReturn:
        """End the job as skipped: it does not apply where it runs, and `why` is its reason.

        Of a group, skipped members do not count as failures. Raises ValueError for an empty text.
        """
        if self._line is not None:
            try:
                self._line.ask({"skip": why})
            except RefusedError as refused:
                raise ValueError(str(refused)) from refused
        raise SkippedError(why)

    def _tell(self, request: dict[str, Any]) -> None:
        """Send what the job does not depend on: an agent may be older, or the line closed."""
        if self._line is None:
            return
        try:
            self._line.ask(request)
        except (RefusedError, LineError):
            return
