"""How a job ended, and what can be done next."""

from collections.abc import Iterator, Mapping

from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.spec import Submission
from joblane.state.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT, Outcome, State
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from joblane.why.words import at

_NEXT: Mapping[State, tuple[str, tuple[str, ...]]] = {
    State.COMPLETED: ("", ("joblane logs {id}",)),
    State.FAILED: (
        "it is not tried again by itself: correct the cause, then retry it",
        ("joblane logs {id}", "joblane retry {id}"),
    ),
    State.DEAD: (
        "it is on the list of dead jobs: correct the cause, then replay it, or dismiss it",
        ("joblane logs {id}", "joblane dlq replay {id}", "joblane dlq dismiss {id}"),
    ),
    State.CANCELLED: ("", ("joblane audit {id}", "joblane resubmit {id}")),
    State.EXPIRED: ("submit it again if it is still wanted", ("joblane resubmit {id}",)),
    State.SKIPPED: ("", ("joblane resubmit {id}",)),
    State.STALE: (
        "its agent was lost, and another job of its key took the slot",
        ("joblane resubmit {id}",),
    ),
    State.DISMISSED: ("an operator took it off the list of dead jobs", ("joblane audit {id}",)),
    State.PARTIAL_FAILURE: (
        "correct the cause, then retry the members that failed",
        ("joblane get --failed {id}", "joblane retry {id}"),
    ),
}
"""What follows each end, and the commands for it."""


def explain_ended(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that has ended."""
    head = s.head
    then, commands = _next(head)
    text = f"{head.state} at {at(head.timeline[-1].at_ms, s.now_ms)}: {head.reason}"
    if then:
        text += f"; {then}"
    if head.resubmitted_as is not None:
        text += f"; job {head.resubmitted_as} repeats it"
        commands = (f"joblane get {head.resubmitted_as}", *commands)
    yield Reason(
        "ended",
        text,
        {
            "ended_at": rfc3339(head.timeline[-1].at_ms),
            "outcome": head.outcome,
            "exit_code": head.exit_code,
            "signal": head.signal,
            "attempts": head.attempt,
            "resubmitted_as": head.resubmitted_as,
        },
        commands,
    )
    if head.state in {State.FAILED, State.DEAD} and (means := _means(head)) is not None:
        yield Reason(
            "outcome",
            means,
            {
                "outcome": head.outcome,
                "exit_code": head.exit_code,
                "memory_mb": head.spec.resources.memory,
                "timeout_s": head.spec.timeout_s,
            },
        )


def _next(head: Head) -> tuple[str, tuple[str, ...]]:
    then, commands = _NEXT[head.state]
    if head.group is not None and head.state is State.FAILED:
        then, commands = _NEXT[State.PARTIAL_FAILURE]
    elif head.group is not None and head.state is State.COMPLETED:
        commands = ("joblane get {id}",)
    elif head.member_of is not None:
        group = head.member_of.group_id
        retry = head.state in {State.FAILED, State.DEAD}
        then = "it is a member of a group, and is retried with it" if retry else ""
        return then, (f"joblane logs {head.job_id}", f"joblane get {group}")
    return then, tuple(command.format(id=head.job_id) for command in commands)


def _means(head: Head) -> str | None:
    """What the last attempt's outcome says about the next one; None if the reason says it all."""
    spec, code = head.spec, head.exit_code or 0
    texts = {
        Outcome.OOM_KILLED: f"it was given {spec.resources.memory} MB of memory: submit it with a "
        "larger memory_mb",
        Outcome.TIMED_OUT: f"it may run for {spec.timeout_s:g} s (timeout_s): submit it with a "
        "longer one",
        Outcome.REFUSED: "it asks for a limit or an isolation that the agent's host lacks",
        Outcome.PERMANENT: _means_permanent(spec, code),
        Outcome.FAILED: _EXIT_CODES.get(code),
    }
    return None if head.outcome is None else texts.get(head.outcome)


def _means_permanent(spec: Submission, code: int) -> str | None:
    if code in spec.exit_codes.permanent:
        return f"its exit_codes say of {code} that another attempt would fail as well"
    if code == EXIT_PERMANENT:
        return f"exit code {code} of a handler says that another attempt would fail as well"
    return None


_EXIT_CODES = {
    EXIT_PERMANENT: f"exit code {EXIT_PERMANENT} is an ordinary failure unless the job's "
    "exit_codes name it as permanent",
    EXIT_BLOCKED: f"exit code {EXIT_BLOCKED} is an ordinary failure unless the job has requires, "
    "has named a condition on its line, or its exit_codes name it as blocked",
    127: "exit code 127 often means that a program, or what it needs to run, was not found",
    126: "exit code 126 often means that the program cannot be executed",
}
"""What exit codes of an ordinary failure say: of sysexits.h, of shells and of the sandbox."""
