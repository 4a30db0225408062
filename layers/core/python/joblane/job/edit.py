"""Edits of a job that waits: what may change, and what follows from it. Pure.

A job that is edited keeps its state, and gets a message of its own: an agent that has an earlier
one, of another lane perhaps, deletes it (`joblane.aws.job.claims.JobClaims.claim`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from joblane.formats.merge_patch import merge
from joblane.job.fields import STORED
from joblane.job.head import Head, waits
from joblane.job.moves import CALLED_FOR, NotAllowed, rearm, reply_by
from joblane.job.spec import Submission
from joblane.state.lifecycle import State
from joblane.state.timeline import Step, fold, waits_since

EDITABLE_FIELDS: Final = ("queue", "priority", "deadline", "labels", "resources", "timeout_s")
"""Fields of a submission that an edit may change. What the job does is not among them: resubmit it
with changes for that."""

EDITABLE: Final = frozenset(
    {State.SCHEDULED, State.WAITING, State.PENDING, State.RETRY, State.BLOCKED}
)
"""States of jobs that wait, which may be edited."""


def check_editable(head: Head) -> None:
    """Raise NotAllowed for a job that cannot be edited; the text says what to do instead."""
    if head.member_of is not None:
        raise NotAllowed(
            f"the job is member {head.member_of.index} of group {head.member_of.group_id}, and "
            "cannot be edited by itself"
        )
    if head.state in EDITABLE:
        return
    if head.state is State.ACTIVE:
        instead = "it runs; cancel it, then resubmit it with changes"
    elif head.state is State.PROCESSING:
        instead = "its members have begun; cancel the group, then resubmit it with changes"
    else:
        instead = "it has ended; resubmit it with changes"
    states = ", ".join(state.value for state in State if state in EDITABLE)
    raise NotAllowed(
        f"a job that is {head.state} cannot be edited, only one that is {states}: {instead}"
    )


def patched(spec: Submission, patch: Mapping[str, Any]) -> Submission:
    """The submission with a merge patch of `EDITABLE_FIELDS`; null means the default.

    Raises ValidationError if the fields do not fit together, such as a deadline before `run_at`.
    """
    before = json.loads(spec.model_dump_json(exclude_defaults=True))
    body = json.dumps(merge(before, patch))
    return Submission.model_validate_json(body, context=STORED)


def differences(before: Submission, after: Submission) -> tuple[str, ...]:
    """Names of the fields that differ, in the order of `EDITABLE_FIELDS`."""
    return tuple(name for name in EDITABLE_FIELDS if getattr(before, name) != getattr(after, name))


def describe(before: Submission, after: Submission) -> str:
    """What an edit changed, for the timeline: `queue a -> b, label team web -> ops`."""
    changes = []
    for name in differences(before, after):
        old, new = _shown(before, name), _shown(after, name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            members = sorted(old.keys() | new.keys())
            prefix = "label " if name == "labels" else ""
            changes += [
                _change(f"{prefix}{each}", old.get(each), new.get(each))
                for each in members
                if old.get(each) != new.get(each)
            ]
        else:
            changes.append(_change(name, old, new))
    return ", ".join(changes)


def _shown(spec: Submission, name: str) -> object:
    value = getattr(spec, name)
    return value.model_dump(exclude_none=True) if name == "resources" else value


def _change(name: str, old: object, new: object) -> str:
    before, after = _text(old), _text(new)
    if new is None:
        return f"{name} no longer {before}"
    return f"{name} {after}" if old is None else f"{name} {before} -> {after}"


def _text(value: object) -> str:
    """Show a value as people write it: 30, not 30.0."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def plan_edit(head: Head, spec: Submission, now_ms: int, why: str) -> Head:
    """The job after an edit that gives it this submission. Raises NotAllowed.

    `why` is who did it, for the timeline. A job that has a message is due at once: its new one is
    sent next, or when the requeue function finds the row.
    """
    check_editable(head)
    changed = f"{why}: {describe(head.spec, spec)}"
    after = replace(
        head,
        spec=spec,
        edit=head.edit + 1,
        waits_for=head.waits_for if head.state is State.BLOCKED else None,
    )
    reason = f"{changed}; {_still(after)}"
    step = Step(head.state, now_ms, head.attempt, reason)
    after = replace(
        after,
        timeline=fold((*head.timeline, step)),
        reply_by_ms=reply_by(after, step),
    )
    return replace(after, wake_at_ms=_wake_at(after, now_ms))


def _still(head: Head) -> str:
    """What the job goes on waiting for, without the edits before this one."""
    if head.state is State.PENDING:
        return waits(head)
    return waits_since(head.timeline).full_reason if head.waits_for is None else head.waits_for


def _wake_at(head: Head, now_ms: int) -> int | None:
    """When the requeue function looks at the job next."""
    if head.state in CALLED_FOR:
        return now_ms
    if head.state is State.SCHEDULED:
        return head.next_at_ms
    return rearm(head, now_ms).wake_at_ms


def changed_meanwhile(wanted: Iterable[str], seen: Submission, now: Submission) -> tuple[str, ...]:
    """The fields of an edit that another edit has changed since the job was read."""
    differ = differences(seen, now)
    return tuple(name for name in wanted if name in differ)
