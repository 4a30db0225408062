"""Why a group goes on: its members that have not ended, and one of them that has no row."""

from collections.abc import Iterator

from joblane.formats.text import some
from joblane.formats.times import rfc3339
from joblane.group.not_begun import count_before, without_row
from joblane.group.record import Group, chunk_of
from joblane.job.head import Head
from joblane.job.offers import offers
from joblane.state.lifecycle import State
from joblane.why.deadline import explain_deadline
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Situation
from joblane.why.words import at


def explain_processing(s: Situation) -> Iterator[Reason]:
    """Reasons of a group of which members have not ended."""
    if s.head.group is not None:
        yield _explain_members(s, s.head.group)
    yield from explain_deadline(s)


def _explain_members(s: Situation, group: Group) -> Reason:
    head, seen = s.head, s.members
    ended, done = sum(group.ended.values()), group.ended.get(State.COMPLETED, 0)
    left = group.members - ended
    text = f"at most {left} of {some(group.members, 'member')} have not ended"
    if seen is not None and not seen.states and group.begun == group.members:
        text = f"none of {seen.looked_at} members that were looked at is open"
    if not left or (seen is None and group.begun == group.members):
        text = f"all {some(group.members, 'member')} have ended, and its state is about to follow"
    if group.stop is not None:
        text += f"; no further ones are begun: {group.stop.why}"
    elif group.begun < group.members:
        text += f"; {group.members - group.begun} are not begun yet, {_release(head, group)}"
    if group.again:
        text += f"; {len(group.again)} are to be retried, when there is room"
    commands = [f"joblane get {head.job_id}"]
    if seen is not None and seen.states:
        states = ", ".join(f"{count} {state}" for state, count in seen.states.items())
        text += f"; of {seen.looked_at} that were looked at: {states}"
        if seen.first is not None:
            commands.insert(0, f"joblane why {seen.first.job_id}")
            text += f"; the first of them, {name_member(seen.first)}, is {seen.first.state}"
            if seen.first.state is not State.ACTIVE and s.waiting is None:
                text += f": {seen.first.reason}"
    return Reason(
        "group_members",
        text,
        {
            "members": group.members,
            "begun": group.begun,
            "ended": ended,
            "completed": done,
            "open": left,
            "looked_at": None if seen is None else seen.looked_at,
            "open_states": []
            if seen is None
            else [f"{count} {state}" for state, count in seen.states.items()],
            "first": None if seen is None or seen.first is None else seen.first.job_id,
        },
        tuple(commands),
    )


def _release(head: Head, group: Group) -> str:
    """What lets members begin that have not: the end of a clause."""
    most = head.spec.max_concurrency
    if most is None:
        return "as they are placed with each end of a member, or within a minute by requeue"
    text = f"at most {most} at once (max_concurrency)"
    if (wanted := min(chunk_of(most), group.waiting)) > 1:
        text += f"; further ones begin when {wanted} places are free"
    return text


def name_member(member: Head) -> str:
    """What a member is called: in an array by its index, else by its agent."""
    if member.in_array is not None:
        return f"index {member.in_array.index}"
    return f"agent {member.assigned}"


def state_without_row(head: Head, number: int) -> State | None:
    """The state of a member without a row, of the group `head`; None if its row has expired."""
    if head.group is not None:
        return without_row(head.group, number, head.spec.max_concurrency).state
    return head.state if head.ended else State.WAITING


def explain_not_begun(s: Situation, number: int) -> Reason:
    """Why a member without a row has not begun; the situation is that of its group."""
    head, group = s.head, s.head.group
    if group is None:
        text = "its group has not begun"
        if head.ended:
            text = f"not begun: {head.reason}"
        return Reason("member_not_begun", text, {"group": head.job_id}, (_why(head),))
    text = without_row(group, number, head.spec.max_concurrency).reason
    commands: tuple[str, ...] = (_why(head),)
    if number >= group.begun and group.stop is not None:
        possible = offers(head, s.now_ms)
        if group.stop.state is State.SKIPPED and "retry" in possible:
            text += "; it begins with a retry of those that failed"
            commands = (f"joblane retry {head.job_id}",)
        elif "resubmit" in possible:
            commands = (f"joblane resubmit {head.job_id}",)
    elif number >= group.begun:
        text = f"{text}; {group.begun} of {some(group.members, 'member')} have begun"
        release = _release(head, group).partition("; ")[2]
        text += f", and {release}" if release else ""
    elif group.may_put(s.now_ms):
        text += (
            f" since {at(group.begun_ms, s.now_ms)}; if that was interrupted, requeue completes it "
            "within a minute"
        )
    else:
        text = (
            f"it was begun at {at(group.begun_ms, s.now_ms)} and was not placed within a day: it "
            "is about to fail, and can be retried then"
        )
    return Reason("member_not_begun", text, _facts(head, group, number), commands)


def explain_retry_turn(s: Situation) -> Iterator[Reason]:
    """Why a member that was retried has not started: there is no room in its group."""
    parent, member = s.parent, s.head.member_of
    if parent is None or parent.group is None or member is None:
        return
    group = parent.group
    if member.index not in group.again:
        return
    before = group.again.index(member.index)
    verb = "is" if before == 1 else "are"
    first = "it is the next one" if not before else f"{before} {verb} retried before it"
    yield Reason(
        "member_retry",
        f"it was retried, and waits for its turn: at most {parent.spec.max_concurrency} run at "
        f"once (max_concurrency), and {first}",
        {**_facts(parent, group, member.index), "before": before},
        (_why(parent),),
    )


def _why(head: Head) -> str:
    return f"joblane why {head.job_id}"


def _facts(head: Head, group: Group, number: int) -> dict[str, Fact]:
    waits = number >= group.begun and group.stop is None
    return {
        "group": head.job_id,
        "members": group.members,
        "begun": group.begun,
        "placed": group.placed,
        "begun_at": rfc3339(group.begun_ms) if group.begun_ms else None,
        "before": count_before(group, number) if waits else None,
        "max_concurrency": head.spec.max_concurrency,
        "stopped": None if group.stop is None else group.stop.why,
    }
