"""Judge how an attempt ended: its outcome and a reason for users. Pure functions."""

import signal
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from joblane.condition.blocking import Blocking
from joblane.condition.names import default_condition, scope_name, unscope_name
from joblane.files.models import OutputSummary
from joblane.formats.text import shorten
from joblane.job.head import Head
from joblane.state.lifecycle import Outcome, outcome_of, read_exit_codes
from joblane.state.result import ResultObject

FAILURE_CHARS = 110
"""Characters of what a job itself says went wrong. What follows it in the reason (the number of the
attempt, when the next one starts) has up to 50, and must not be cut."""


NOT_THERE = ("No such file or directory", "File name too long")
"""What a sandbox says of a program that has no file; it explains why one that has a file does not
run."""


PROGRAM_CHARS = 40
"""Characters of a program's name in a reason, where another one is suggested."""


class Usage(Protocol):
    """Resources that an attempt used: a dataclass, whose fields are stored with the job."""

    @property
    def wall_s(self) -> float:
        """Seconds up to the end of the main process."""


class Ending(Protocol):
    """How the process of an attempt ended (`ec2_agent/sandbox/model.py` describes each field)."""

    @property
    def exit_code(self) -> int | None:
        """None if a signal ended it."""

    @property
    def signal(self) -> int | None:
        """None if it exited."""

    @property
    def timed_out(self) -> bool:
        """Whether its `timeout_s` has passed."""

    @property
    def oom_killed(self) -> bool:
        """Whether it ran out of memory."""

    @property
    def stopped(self) -> bool:
        """Whether its agent asked it to stop."""

    @property
    def error(self) -> str | None:
        """Why the command could not be run."""

    @property
    def usage(self) -> Usage:
        """What it used."""

    @property
    def condition(self) -> str | None:
        """The condition that it named."""

    @property
    def records(self) -> int | None:
        """Log records that it wrote."""

    @property
    def output_bytes(self) -> int:
        """Bytes of output in them."""

    @property
    def failure(self) -> str | None:
        """What it said went wrong."""

    @property
    def skip(self) -> str | None:
        """Why it does not apply, as it said."""

    @property
    def result(self) -> str | None:
        """Its result, as JSON."""

    @property
    def result_file(self) -> bool:
        """Whether it gave a longer result."""

    @property
    def silent(self) -> bool:
        """Whether it was stopped for its silence."""


class StopReason(Enum):
    """Why a running job was asked to stop."""

    DRAIN = auto()
    """Its agent is draining."""
    COMMAND = auto()
    """The job was cancelled, or the control plane saw that its deadline has passed."""
    DEADLINE = auto()
    """Its agent saw that its deadline has passed."""


def said_reason(head: Head, reason: StopReason, now_ms: int) -> str:
    """What a job that is asked to stop hears on its line: cancel, drain or deadline.

    Its time limit and its silence, after which it hears timeout, are watched by its shim.
    """
    if reason is StopReason.DRAIN:
        return "drain"
    passed = head.deadline_ms is not None and head.deadline_ms <= now_ms
    return "deadline" if reason is StopReason.DEADLINE or passed else "cancel"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt ended, and why."""

    outcome: Outcome
    reason: str
    at_ms: int
    """When it was judged, in Unix milliseconds."""
    condition: str | None = None
    """What a blocked job waits for."""
    ending: Ending | None = None
    """None when the job was not started, or its shim was killed."""
    records: int | None = None
    """Log records that the job has written, all of them stored; None if that is unknown."""
    started: bool = True
    """Whether the job may have run."""
    stored_bytes: int | None = None
    """Bytes of output, if its shim was killed before it could report them."""
    result_object: ResultObject | None = None
    """A large result of a job that succeeded, which has been stored in S3."""
    output_files: OutputSummary | None = None
    """The files that were collected and stored in S3; None if none were to be."""

    @property
    def output_bytes(self) -> int:
        """Bytes of output that were stored."""
        if self.stored_bytes is not None:
            return self.stored_bytes
        return 0 if self.ending is None else self.ending.output_bytes


def judge(head: Head, ending: Ending, stop: StopReason | None, at_ms: int) -> AttemptResult:
    """Judge an attempt by how its process ended, and by the reason for which it was stopped."""
    wall = f"{ending.usage.wall_s:.1f} s"
    if stop is not None and ending.stopped:
        outcome, reason = _judge_stopped(head, stop, at_ms, f"ended after {wall}")
        return AttemptResult(outcome, reason, at_ms, ending=ending, records=ending.records)
    named = ending.condition
    names = (named, *head.spec.requires, default_condition(head.queue))
    condition = scope_name(next(name for name in names if name), head.tenant)
    outcome = _outcome(head, ending)
    blocked_by = condition if outcome is Outcome.BLOCKED else None
    match outcome:
        case Outcome.BLOCKED:
            says = "the job named what it waits for:" if named else "waits for"
            reason = f"exit code {ending.exit_code}: {says} {unscope_name(condition)}"
        case Outcome.TIMED_OUT if ending.silent:
            reason = f"no heartbeat for {head.spec.heartbeat_timeout_s or 0:g} s"
        case Outcome.TIMED_OUT:
            reason = f"exceeded its timeout_s of {head.spec.timeout_s:g}"
        case Outcome.OOM_KILLED:
            reason = f"ran out of memory ({_memory_limit(head)}) after {wall}"
        case _ if ending.error is not None:
            reason = f"exit code {ending.exit_code}: {_explain(head, ending.error)}"
        case Outcome.SKIPPED:
            said = ending.skip or ending.failure or f"exit code {ending.exit_code}"
            reason = f"does not apply here: {shorten(said, FAILURE_CHARS)}"
        case Outcome.FAILED | Outcome.PERMANENT if ending.failure and ending.exit_code is not None:
            reason = shorten(ending.failure, FAILURE_CHARS)
        case _ if ending.signal is not None:
            reason = f"killed by {_signal_name(ending.signal)} after {wall}"
        case _:
            reason = f"exit code {ending.exit_code} after {wall}"
    return AttemptResult(outcome, reason, at_ms, blocked_by, ending, ending.records)


def _outcome(head: Head, ending: Ending) -> Outcome:
    """The outcome of a process that nobody stopped: what it said counts if it exits with 0."""
    outcome = outcome_of(
        exit_code=ending.exit_code,
        timed_out=ending.timed_out or ending.silent,
        oom_killed=ending.oom_killed,
        codes=read_exit_codes(
            head.spec.exit_codes,
            typed=head.spec.type is not None,
            waits=bool(ending.condition or head.spec.requires),
        ),
    )
    skips = outcome is Outcome.SUCCEEDED and ending.skip is not None
    return Outcome.SKIPPED if skips else outcome


def not_collected(
    result: AttemptResult, why: str, instead: Outcome = Outcome.FAILED
) -> AttemptResult:
    """Judge an attempt whose output files could not be collected.

    One that succeeded becomes `instead`; another one stays as it is, and its reason says why.
    """
    succeeded = result.outcome is Outcome.SUCCEEDED
    return replace(
        result,
        outcome=instead if succeeded else result.outcome,
        reason=shorten(why if succeeded else f"{result.reason}; {why}", FAILURE_CHARS),
    )


def not_started(
    outcome: Outcome, reason: str, at_ms: int, condition: str | None = None
) -> AttemptResult:
    """Give the result of an attempt that ended before its job was started."""
    return AttemptResult(outcome, reason, at_ms, condition, records=0, started=False)


def judge_stopped_before_start(head: Head, stop: StopReason, at_ms: int) -> AttemptResult:
    """Give the result of an attempt that was asked to stop before its job was started."""
    outcome, reason = _judge_stopped(head, stop, at_ms, "before it was started")
    return not_started(outcome, reason, at_ms)


def judge_blocked_before_start(blocking: Blocking, at_ms: int) -> AttemptResult:
    """Give the result of an attempt whose job requires a condition that does not hold."""
    reason = f"{unscope_name(blocking.condition)}: {blocking.why}"
    if blocking.untestable:
        return not_started(Outcome.PERMANENT, reason, at_ms)
    return not_started(Outcome.BLOCKED, f"waits for {reason}", at_ms, blocking.condition)


def judge_cancelled(head: Head, at_ms: int, how: str) -> tuple[Outcome, str]:
    """Judge a job that was asked to end; `how` describes the end of the attempt."""
    if head.deadline_ms is not None and head.deadline_ms <= at_ms:
        return judge_expired(head, how)
    return Outcome.CANCELLED, f"cancelled; {how}"


def judge_expired(head: Head, how: str) -> tuple[Outcome, str]:
    """Judge a job whose deadline has passed; `how` describes the end of the attempt."""
    return Outcome.EXPIRED, f"its deadline {head.spec.deadline} passed; {how}"


def _judge_stopped(head: Head, stop: StopReason, at_ms: int, how: str) -> tuple[Outcome, str]:
    if stop is StopReason.DRAIN:
        return Outcome.INTERRUPTED, "interrupted: its agent is draining"
    if stop is StopReason.DEADLINE:  # whatever the clock says now: AWS's time may have set it back
        return judge_expired(head, how)
    return judge_cancelled(head, at_ms, how)


def _explain(head: Head, error: str) -> str:
    """Say why the command was not run. What is said of its program comes last, and stays whole."""
    program = next(iter(head.spec.command), "")
    if len(program.split()) > 1 and error.endswith(NOT_THERE):
        name = shorten(program, PROGRAM_CHARS)
        return f"there is no program {name!r}; for a command line write sh -c '...'"
    cut = len(error) - FAILURE_CHARS
    return error if cut <= 0 else f"\N{HORIZONTAL ELLIPSIS}{error[cut + 1 :]}"


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _memory_limit(head: Head) -> str:
    resources = head.spec.resources
    default = ", the default" if resources.memory_mb is None else ""
    return f"its limit is {resources.memory} MB{default}"
