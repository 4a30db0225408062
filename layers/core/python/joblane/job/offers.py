"""What may be done with a job as it is now, decided as the API's routes decide it. Pure.

Whoever names a command or shows a button asks here first, so that nothing is offered that is then
refused. What only the tables know (a key without room, a queue that is no longer declared) is not
judged here.
"""

from collections.abc import Callable
from typing import Final, Literal

from joblane.job.edit import check_editable
from joblane.job.head import Head
from joblane.job.moves import NotAllowed, check_restart
from joblane.state.lifecycle import RETRIABLE, Event, State

Offer = Literal["cancel", "dismiss", "edit", "replay", "resubmit", "retry"]
"""An operation, by the word of the command line for it."""

_EVENTS: Final[tuple[tuple[Offer, Event], ...]] = (
    ("cancel", Event.CANCEL),
    ("dismiss", Event.DISMISS),
    ("replay", Event.REPLAY),
    ("retry", Event.RETRY),
)


def offers(head: Head, now_ms: int) -> frozenset[Offer]:
    """Return the operations that the API would take at that time, in Unix milliseconds."""
    found: set[Offer] = {name for name, event in _EVENTS if _takes(head, event, now_ms)}
    if _passes(lambda: check_editable(head)):
        found.add("edit")
    if _passes(lambda: check_resubmission(head, now_ms)):
        found.add("resubmit")
    return frozenset(found)


def _passes(check: Callable[[], object]) -> bool:
    try:
        check()
    except NotAllowed:
        return False
    return True


def _takes(head: Head, event: Event, now_ms: int) -> bool:
    if head.group is not None:
        return _group_takes(head, event, now_ms)
    if event is Event.CANCEL and head.state is State.ACTIVE:
        return head.cancel_requested is None
    return _passes(lambda: check_restart(head, event, now_ms))


def _group_takes(head: Head, event: Event, now_ms: int) -> bool:
    """Whether a group's routes take it; members that have started may refuse to start again."""
    if event is Event.CANCEL:
        return head.state is State.PROCESSING
    return (
        event is Event.RETRY
        and (head.state in RETRIABLE or _tolerated(head))
        and head.spec.restartable
        and not _deadline_passed(head, now_ms)
    )


def _tolerated(head: Head) -> bool:
    """Whether a group is completed though some of its members failed."""
    if head.group is None or head.state is not State.COMPLETED:
        return False
    from joblane.group.states import failures  # most jobs are no group

    return failures(head.group.ended) > 0


def check_resubmission(head: Head, now_ms: int, *, new_deadline: bool = False) -> None:
    """Raise NotAllowed for a job that cannot be submitted again.

    `new_deadline`: it gets another deadline with that, which is checked as a new job's is.
    """
    if head.member_of is not None:
        raise NotAllowed(
            f"the job is a member of group {head.member_of.group_id}: submit that one again, "
            "or retry the job"
        )
    if not head.ended:
        from joblane.job.refusals import not_ended  # refusals only

        raise NotAllowed(not_ended(head, "resubmitted"))
    if _deadline_passed(head, now_ms) and not new_deadline:
        raise NotAllowed(
            f"the job's deadline has passed ({head.spec.deadline}); resubmit it with another "
            "deadline, or with none"
        )


def _deadline_passed(head: Head, now_ms: int) -> bool:
    """Whether its deadline has passed, and stays: one that its type sets counts anew."""
    passed = head.deadline_ms is not None and head.deadline_ms <= now_ms
    return passed and head.deadline_is_given
