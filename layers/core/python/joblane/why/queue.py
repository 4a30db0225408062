"""What becomes of a job whose queue is gone from joblane.toml, or is retired there."""

from collections.abc import Iterator

from joblane.formats.times import rfc3339
from joblane.queue.gone import ways_out
from joblane.queue.moves import may_move
from joblane.state.lifecycle import State
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from joblane.why.words import at


def is_gone(s: Situation) -> bool:
    """Whether the job needs a lane to start, and its queue has none any more."""
    return s.queue is not None and s.queue.gone and s.head.assigned is None


def explain_gone(s: Situation) -> Iterator[Reason]:
    """The queue that joblane.toml has no more."""
    if not is_gone(s):
        return
    name = s.head.queue
    then = {
        State.WAITING: "when it gets its slot, no agent gets it",
        State.BLOCKED: "when its condition lets it go, no agent gets it",
        State.SCHEDULED: "when its run_at has come, no agent gets it",
    }.get(s.head.state, "no agent gets it")
    yield Reason(
        "queue_gone",
        f"queue {name} is gone, joblane.toml has it no more: {then} until it is moved to another "
        f"queue, or the queue is back and its messages are sent again (joblane requeue {name})",
        {"queue": name},
        ways_out(s.head, s.now_ms),
    )


def explain_retired(s: Situation) -> Iterator[Reason]:
    """The queue whose waiting jobs move to another one."""
    queue, name, in_array = s.queue, s.head.queue, s.head.in_array is not None
    if queue is None or queue.moves_to is None or not (may_move(s.head) or in_array):
        return
    to, due_ms = queue.moves_to, queue.next_move_ms
    text = f"queue {name} is retired, and its jobs move to queue {to}"
    if in_array:
        text += ", except members of groups: it stays and runs where it is"
    elif queue.misfit is not None:
        text += f", which does not take this one: {queue.misfit}; it stays and runs where it is"
    elif due_ms is not None and due_ms > s.now_ms:
        text += "; if it has not started before, it moves when all are looked at again, from "
        text += at(due_ms, s.now_ms)
    else:
        text += "; it moves within minutes, unless it starts before"
    yield Reason(
        "queue_retired",
        text,
        {
            "queue": name,
            "moves_to": to,
            "misfit": queue.misfit,
            "next_at": None if due_ms is None else rfc3339(due_ms),
        },
        () if queue.misfit is None or in_array else ways_out(s.head, s.now_ms),
    )
