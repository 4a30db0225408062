"""How a job ended, and what can be done next."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from joblane.formats.times import rfc3339
from joblane.group.record import Group
from joblane.group.states import failures
from joblane.job.head import Head
from joblane.job.offers import Offer, offers
from joblane.job.spec import Submission
from joblane.queue.maxima import excess
from joblane.state.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT, RETRIABLE, Outcome, State
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from joblane.why.words import at


@dataclass(frozen=True, slots=True)
class _Next:
    """What can be done about an end, if the API takes it."""

    needs: Offer | None
    """The operation that it is about; None: nothing has to be possible."""
    text: str
    """With `{else}` for why it cannot be submitted again, and what to do then."""
    commands: tuple[str, ...]
    """With `{id}` for the job's."""


_PASSED = "its deadline has passed: resubmit it with another one (--set deadline=TIME)"

_TAKEN = "its agent was lost, and another job of its key took the slot"

_REPEAT = (_Next("resubmit", "", ("joblane resubmit {id}",)), _Next(None, "{else}", ()))

_NEXT: Mapping[State, tuple[_Next, ...]] = {
    State.COMPLETED: (_Next(None, "", ("joblane logs {id}",)),),
    State.FAILED: (
        _Next(
            "retry",
            "it is not tried again by itself: correct the cause, then retry it",
            ("joblane logs {id}", "joblane retry {id}"),
        ),
        _Next(
            "resubmit",
            "it cannot be retried: correct the cause, then submit it again",
            ("joblane logs {id}", "joblane resubmit {id}"),
        ),
        _Next(None, "{else}", ("joblane logs {id}",)),
    ),
    State.DEAD: (
        _Next(
            "replay",
            "it is on the list of dead jobs: correct the cause, then replay it, or dismiss it",
            ("joblane logs {id}", "joblane dlq replay {id}", "joblane dlq dismiss {id}"),
        ),
        _Next(
            "resubmit",
            "it is on the list of dead jobs and cannot be replayed: correct the cause, then submit "
            "it again, or dismiss it",
            ("joblane logs {id}", "joblane resubmit {id}", "joblane dlq dismiss {id}"),
        ),
        _Next(
            None,
            "it is on the list of dead jobs, and {else}, or dismiss it",
            ("joblane logs {id}", "joblane dlq dismiss {id}"),
        ),
    ),
    State.CANCELLED: (
        _Next("resubmit", "", ("joblane audit {id}", "joblane resubmit {id}")),
        _Next(None, "", ("joblane audit {id}",)),
    ),
    State.EXPIRED: (
        _Next("resubmit", "submit it again if it is still wanted", ("joblane resubmit {id}",)),
        _Next(None, "{else} if it is still wanted", ()),
    ),
    State.SKIPPED: _REPEAT,
    State.STALE: (
        _Next("resubmit", _TAKEN, ("joblane resubmit {id}",)),
        _Next(None, f"{_TAKEN}; {{else}}", ()),
    ),
    State.DISMISSED: (
        _Next(None, "an operator took it off the list of dead jobs", ("joblane audit {id}",)),
    ),
    State.PARTIAL_FAILURE: (
        _Next(
            "retry",
            "correct the cause, then retry the members that failed",
            ("joblane get --failed {id}", "joblane retry {id}"),
        ),
        _Next(
            "resubmit",
            "its members cannot be retried: correct the cause, then submit it again",
            ("joblane get --failed {id}", "joblane resubmit {id}"),
        ),
        _Next(None, "{else}", ("joblane get --failed {id}",)),
    ),
}
"""What follows each end: the first entry of which the API takes the operation."""


def explain_ended(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that has ended."""
    head = s.head
    then, commands = _next(s)
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


def _next(s: Situation) -> tuple[str, tuple[str, ...]]:
    head, state = s.head, s.head.state
    possible, otherwise = offers(head, s.now_ms), _PASSED
    if "resubmit" in possible and (refused := _not_admitted(s)) is not None:
        possible, otherwise = possible - {"resubmit"}, refused
    if head.member_of is not None:
        return _next_of_member(head, head.member_of.group_id, retries="retry" in possible)
    if head.group is not None and state in {State.FAILED, State.PARTIAL_FAILURE}:
        state = _state_of_failure(head.group)
    found = next(each for each in _NEXT[state] if each.needs is None or each.needs in possible)
    commands = found.commands
    if head.group is not None and state is State.COMPLETED:
        commands = ("joblane get {id}",)
    text = found.text.replace("{else}", otherwise)
    if head.type_version is not None:
        text = _of_type(text, head, restarts=found.needs in {"retry", "replay"})
    return text, tuple(command.format(id=head.job_id) for command in commands)


def _next_of_member(head: Head, group_id: str, *, retries: bool) -> tuple[str, tuple[str, ...]]:
    logs, group = f"joblane logs {head.job_id}", f"joblane get {group_id}"
    if head.state not in RETRIABLE:
        return "", (logs, group)
    if not retries:
        return "it is a member of a group, and cannot be retried", (logs, group)
    return (
        "correct the cause, then retry it, or its group with all that failed",
        (logs, f"joblane retry {head.job_id}", f"joblane retry {group_id}", group),
    )


def _state_of_failure(group: Group) -> State:
    """The state whose entry in `_NEXT` a group has that did not complete.

    If its members were cancelled and none has failed, no retry takes any.
    """
    is_cancelled = State.CANCELLED in group.ended and not failures(group.ended)
    return State.CANCELLED if is_cancelled else State.PARTIAL_FAILURE


def _of_type(text: str, head: Head, *, restarts: bool) -> str:
    """The same of a typed job, whose cause is mostly its code, and which takes the present one."""
    text = text.replace("correct the cause", "push the fix")
    if not restarts:
        return text
    return (
        f"{text}; it starts with the present version of type {head.spec.type}, and ran version "
        f"{head.type_version} (--same-version runs that again)"
    )


def _not_admitted(s: Situation) -> str | None:
    """Why joblane.toml of now refuses the same submission; None if nothing is known against it."""
    if s.queue is None:
        return None
    name = s.head.queue
    if not s.queue.declared:
        return (
            f"queue {name} is not this tenant's any more: resubmit it to another one "
            "(--set queue=QUEUE)"
        )
    if (found := excess(s.head.spec.resources, s.queue.maxima)) is None:
        return None
    field, most = found
    return (
        f"no fleet of queue {name} gives more than {most:g} of {field}: resubmit it with less "
        f"(--set resources.{field}={most:g})"
    )


def _means(head: Head) -> str | None:
    """What the last attempt's outcome says about the next one; None if the reason says it all."""
    spec, code = head.spec, head.exit_code or 0
    texts = {
        Outcome.OOM_KILLED: f"it was given {spec.resources.memory} MB of memory: submit it with a "
        "larger memory_mb",
        Outcome.TIMED_OUT: f"it may run for {spec.timeout_s:g} s (timeout_s): submit it with a "
        "longer one",
        Outcome.REFUSED: "its agent could not start it as it was submitted: submit it with what "
        "the agents of its queue allow, or to another queue",
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
