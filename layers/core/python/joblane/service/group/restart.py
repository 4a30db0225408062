"""Retries members of a group, one or a page of them.

A member and its group are written in one transaction, so that a group never counts a member as
ended that runs again; a group that has ended is processing again by the same write. Messages are
sent after it; until then the member is due in the index `wake`:

    API                          table                      requeue
    transaction  ------------>   member 7 pending, due
                                 group processing, due
    (killed here)
                                 member 7           ----->  sends the message

A group has one version of its type. A retry of the group gives it the present one, in the
transaction that moves the first of its members; a retry of one member takes that of the group. The
present version is asked once, with all values of an array; the requests for further pages ask it
only if it is another one than the group has by then.

In a group with `max_concurrency`, members are only noted in the group, which retries them as there
is room (`joblane.service.group.settlement`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from joblane.aws.job.groups import GroupStore, MemberState
from joblane.aws.job.items import is_inline
from joblane.aws.job.jobs import Refused
from joblane.group.record import MOST_RESTARTS, Group, retry_members
from joblane.job.head import Head, version
from joblane.job.member import as_group, is_as_group
from joblane.job.moves import NotAllowed, apply, plan, plan_restart
from joblane.service.decide_again import decide_again
from joblane.service.group.progress import advance
from joblane.service.group.settlement import GroupSettlement, Send
from joblane.service.job.operations import Gone
from joblane.state.lifecycle import Event, State
from joblane.state.retention import Retention

if TYPE_CHECKING:
    from joblane.service.job.present_code import PresentCode

RETRIED = frozenset({State.FAILED, State.DEAD})
"""States in which a retry of a group finds the members that it retries."""


class Restarts(NamedTuple):
    """What a retry has done."""

    done: int
    """Members that were retried, or that will be when there is room."""
    refused: dict[str, str]
    """Members that cannot be retried, each with the reason."""


@dataclass(frozen=True)
class GroupRestart:
    """Retries members. Every method may be called again after a crash at any point."""

    groups: GroupStore
    settlement: GroupSettlement
    send: Send
    retention: Retention
    present: "Callable[[], PresentCode] | None" = None
    """Returns what finds the present versions of types; None where no group is retried."""

    def one(self, head: Head, why: str, now_ms: int, *, exact: bool) -> Head:
        """Retry one member; returns it as it is then. In a full group it waits for room.

        Raises NotAllowed, Gone if it is deleted, Refused with `exact` if it has changed since
        `head` was read, and TryAgain if the group changed on every try.
        """
        if head.member_of is None:
            raise ValueError(f"job {head.job_id} is no member of a group")
        plan(head, Event.RETRY, now_ms, why)  # refused as the caller has seen it

        def check_found(found: Sequence[Head]) -> None:
            if not found:
                raise Gone
            if exact and version(found[0]) != version(head):
                raise Refused(found[0])
            plan(found[0], Event.RETRY, now_ms, why)

        self._restart(head.member_of.group_id, [head.job_id], why, now_ms, check_found)
        after = self.groups.get(head.job_id)
        if after is None:
            raise Gone
        return after

    def members(
        self,
        group_id: str,
        indices: Sequence[int],
        why: str,
        now_ms: int,
        *,
        same_version: bool = False,
        continues: bool = False,
        named: bool = False,
    ) -> Restarts:
        """Retry those of some members that are failed or dead. Raises Gone and TryAgain.

        Others are refused if they were `named`, else left as they are.

        With the present version of the group's type, unless `same_version`: raises DoesNotFit if
        that does not take the group. `continues` says that an earlier request has retried others.
        """
        renewed: dict[tuple[int | None, int], Head] = {}

        def renew(group: Head) -> Head:
            if same_version or group.type_version is None:
                return group
            if self.present is None:
                raise ValueError("groups are not retried here")
            had = (group.type_version, group.edit)
            if had not in renewed:
                present = self.present()
                is_kept = continues and present.is_current(group, now_ms)
                after = group if is_kept else present.of(group, now_ms).head
                renewed.update({had: after, (after.type_version, after.edit): after})
            return renewed[had]

        seen = self.groups.progress(group_id)
        if seen is None or seen.group is None:
            raise Gone
        states = self.groups.states(seen.group, indices)
        failed = [index for index in indices if index in states and states[index].state in RETRIED]
        done, refused = 0, dict[str, str]()
        if named:
            refused = {
                seen.group.id_of(index): _not_retried(states.get(index))
                for index in indices
                if index not in failed
            }
        for start in range(0, len(failed), MOST_RESTARTS):
            ids = [seen.group.id_of(index) for index in failed[start : start + MOST_RESTARTS]]
            part = self._restart(group_id, ids, why, now_ms, renew=renew)
            done += part.done
            refused |= part.refused
        return Restarts(done, refused)

    def _restart(
        self,
        group_id: str,
        job_ids: Sequence[str],
        why: str,
        now_ms: int,
        check: Callable[[Sequence[Head]], None] | None = None,
        renew: Callable[[Head], Head] | None = None,
    ) -> Restarts:
        """Retry at most `MOST_RESTARTS` members; `check` raises for what the caller refuses.

        `renew` is what the group becomes; None: it stays as it is.
        """
        read = self.groups.progress if renew is None else self.groups.get

        def once() -> Restarts:
            seen = read(group_id)
            if seen is None or seen.group is None:
                raise NotAllowed(f"its group {group_id} was deleted; submit it again")
            if seen.group.cancels and not seen.group.settled:
                raise NotAllowed("its group is being cancelled; retry it when the group has ended")
            heads = self.groups.heads(job_ids, consistent=True)
            if check is not None:
                check(heads)
            to = seen if renew is None else renew(seen)
            if renew is None and not all(is_as_group(head, seen) for head in heads):
                to = self.groups.get(group_id) or seen  # with its submission
            moves, refused = _moves(seen.group, to, heads, why, now_ms)
            if not moves:
                return Restarts(0, refused)
            rolling = seen.spec.max_concurrency is not None
            indices = [m.member_of.index for m, _ in moves if m.member_of is not None]
            group = retry_members(seen.group, indices, rolling=rolling)
            after = advance(seen, group, now_ms, self.retention, why)
            if renew is not None:
                after = _with_code_of(seen, after, to)
            if rolling:
                self.groups.write_group(seen, after)
                # Once all had begun, nobody took out those that have ended.
                ended = () if seen.group.waiting else group.open
                self.settlement.settle(group_id, ended)
            else:
                self.groups.write_group_with(seen, after, moves)
                for _, member in moves:
                    self.send(member, now_ms)
            return Restarts(len(moves), refused)

        return decide_again(once, passes=Refused)


def _not_retried(member: MemberState | None) -> str:
    """Why a member that was named is not retried."""
    if member is None:
        return "its row has expired, or is not there yet"
    return f"it is {member.state}; members that are failed or dead are retried"


def _with_code_of(seen: Head, after: Head, to: Head) -> Head:
    """What follows on `seen`, with the version and the submission of `to`."""
    timeline = after.timeline
    if to.type_version != seen.type_version and timeline != seen.timeline:
        timeline = (*timeline[:-1], replace(timeline[-1], from_version=seen.type_version))
    return replace(
        after,
        timeline=timeline,
        spec=to.spec,
        payload=to.payload,
        type_version=to.type_version,
        bundle_mb=to.bundle_mb,
        given=to.given,
        edit=to.edit,
    )


def _moves(
    group: Group, to: Head, heads: Sequence[Head], why: str, now_ms: int
) -> tuple[list[tuple[Head, Head]], dict[str, str]]:
    """The transitions of those members that may be retried, and why others may not."""
    moves: list[tuple[Head, Head]] = []
    refused: dict[str, str] = {}
    for head in heads:
        waits = head.member_of is not None and head.member_of.index in group.again
        if head.state not in RETRIED or waits:
            continue  # somebody else has retried it
        becomes = as_group(head, to, inline=is_inline(to))
        try:
            step = plan_restart(head, becomes, Event.RETRY, now_ms, why)
        except NotAllowed as refusal:
            refused[head.job_id] = str(refusal)
        else:
            moves.append((head, apply(becomes, Event.RETRY, step)))
    return moves, refused
