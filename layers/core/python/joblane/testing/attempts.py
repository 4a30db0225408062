"""How an attempt ends in a deployment in memory: as a test says, or as its handler did."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from joblane.condition.names import check_named_by_job
from joblane.handler.job_type import JobType
from joblane.handler.line import Line, RefusedError
from joblane.handler.runner import run_handler
from joblane.job.context import job_context
from joblane.job.head import Head
from joblane.key.segments import fill_in
from joblane.testing.output import Output

MAX_EXIT_CODE: Final = 255


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that an attempt used."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ends, as a test says. `End()` is exit code 0.

    An attempt ends in one way: an exit code, `signal`, `timed_out`, `oom_killed` or `lost`. Raises
    ValueError for more than one.
    """

    exit_code: int = 0
    """0 to 255. As the process would have exited: for a type 65 is permanent, and 75 waits for
    `condition`; for a command they are what its `exit_codes` say."""
    signal: int | None = None
    """The signal that killed it."""
    timed_out: bool = False
    """Whether its `timeout_s` has passed."""
    oom_killed: bool = False
    """Whether it ran out of memory."""
    lost: bool = False
    """Whether its agent died: the job starts again, or fails if it is not restartable."""
    error: str | None = None
    """What the job says went wrong; the reason of its state."""
    condition: str | None = None
    """What it says that it waits for, such as `app:ledger`, with exit code 75."""
    result: Any = None
    """JSON that it gives as its result."""
    output: str = ""
    """What it has printed, to its standard output."""

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError."""
        ways = (self.signal is not None, self.timed_out, self.oom_killed, self.lost)
        if sum(ways) + (self.exit_code != 0) > 1:
            raise ValueError(
                "an attempt ends in one way: give one of exit_code, signal, timed_out, oom_killed "
                "and lost"
            )
        if type(self.exit_code) is not int or not 0 <= self.exit_code <= MAX_EXIT_CODE:
            raise ValueError(f"exit_code is 0 to {MAX_EXIT_CODE}; not {self.exit_code!r}")


@dataclass(frozen=True, slots=True)
class AttemptEnding:
    """See `joblane.job.judge.Ending`."""

    exit_code: int | None
    usage: Usage
    signal: int | None = None
    timed_out: bool = False
    oom_killed: bool = False
    stopped: bool = False
    error: str | None = None
    condition: str | None = None
    records: int | None = 0
    output_bytes: int = 0
    failure: str | None = None
    skip: str | None = None
    result: str | None = None
    result_file: bool = False
    silent: bool = False


def ending_of(end: End, wall_s: float, output: Output) -> AttemptEnding:
    """The ending of an attempt that took `wall_s` seconds."""
    output.add("stdout", end.output)
    killed = end.timed_out or end.oom_killed or end.signal is not None
    signal = (end.signal or 9) if killed else None
    return AttemptEnding(
        None if killed else end.exit_code,
        Usage(0.0, wall_s),
        signal,
        timed_out=end.timed_out,
        oom_killed=end.oom_killed,
        condition=end.condition,
        records=len(output.records),
        output_bytes=output.size,
        failure=end.error,
        result=None if end.result is None else json.dumps(end.result, separators=(",", ":")),
    )


def stopped(wall_s: float) -> AttemptEnding:
    """The ending of an attempt that its agent stopped."""
    return AttemptEnding(None, Usage(0.0, wall_s), signal=15, stopped=True)


@dataclass(eq=False)
class MemoryLine(Line):
    """A handler's line to its agent, in this process."""

    head: Head
    """With its params whole."""
    key: tuple[Any, ...] = ()
    condition: str | None = None
    error: str | None = None
    skip: str | None = None
    result: str | None = None
    progress: list[Any] = field(default_factory=list)

    def ask_raw(self, request: bytes) -> dict[str, Any]:
        """See Line."""
        ((name, value),) = json.loads(request).items()
        match name:
            case "params":
                return {"params": self.head.spec.params}
            case "context":
                return job_context(self.head, self.key)
            case "stopping":
                return {"stopping": None}
            case "block":
                self._block(value)
            case "error":
                self.error = value
            case "skip":
                self.skip = value
            case "result":
                self.result = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            case "progress":
                self.progress.append(value)
        return {"ok": True}

    def _block(self, condition: str) -> None:
        head = self.head
        try:
            check_named_by_job(condition, head.tenant, head.spec.requires)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        self.condition = condition


def run_typed(handler: JobType[Any, Any], head: Head, output: Output) -> AttemptEnding:
    """Run a handler here, in this thread, as the runner of an instance does."""
    key = () if handler.key is None else fill_in(handler.key.segments, head.spec.params)
    line = MemoryLine(head, key)
    with output.capture():
        code = run_handler(lambda: handler, line)
    return AttemptEnding(
        code,
        Usage(0.0, 0.0),
        condition=line.condition,
        records=len(output.records),
        output_bytes=output.size,
        failure=line.error,
        skip=line.skip,
        result=line.result,
    )
