"""The job of one member of a group, and what another start changes about it. Pure."""

from dataclasses import replace

from joblane.group.array import InArray
from joblane.group.record import MemberOf
from joblane.job.head import Head, waits
from joblane.job.spec import of_a_member
from joblane.state.lifecycle import State
from joblane.state.timeline import Step


def member_job(parent: Head, index: int, agent: str | None, now_ms: int, *, inline: bool) -> Head:
    """Make the job of a member.

    Of a broadcast it is for `agent`, which must claim it within the reply timeout of now; of an
    array, without one, for any agent. It belongs to the trace of its group. With `inline` it has
    the submission itself, else its row names that of the group.
    """
    group = parent.group
    if group is None:
        raise ValueError(f"job {parent.job_id} is no group")
    in_array = None
    if group.array is not None:
        in_array = InArray(group.array.of(index), group.members, parent.has_values)
    spec = parent.spec.model_copy(update=of_a_member(parent.spec))
    is_told = parent.events == "members" or spec.notify is not None
    job = Head(
        job_id=group.id_of(index),
        tenant=parent.tenant,
        state=State.PENDING,
        epoch=0,
        attempt=0,
        spec=spec,
        timeline=(),
        submitted_by=parent.submitted_by,
        payload=parent.payload,
        caller_trace=parent.trace.under(parent.span_id),
        type_version=parent.type_version,
        files_mb=parent.files_mb,
        bundle_mb=parent.bundle_mb,
        given=parent.given,
        assigned=agent,
        reply_by_ms=None if agent is None else now_ms + parent.reply_timeout_ms,
        in_array=in_array,
        member_of=MemberOf(parent.job_id, index),
        spec_of=None if inline else parent.job_id,
        # Only for its events: the group's row has it for everybody else.
        request_id=parent.request_id if is_told else None,
        events="jobs" if parent.events == "members" else None,
        schedule=parent.schedule,
        scheduled_ms=parent.scheduled_ms,
        edit=parent.edit,
    )
    return replace(job, timeline=(Step(State.PENDING, now_ms, 0, waits(job)),))


def is_as_group(member: Head, group: Head) -> bool:
    """Whether a member has the version of the type, and the submission, that its group has now."""
    return (member.type_version, member.edit) == (group.type_version, group.edit)


def as_group(member: Head, group: Head, *, inline: bool) -> Head:
    """A member that is to be started again, with what its group has now.

    A group has one version of its type at a time: that of its submission, or of its last retry.
    With `inline` the member has the submission itself, as in `member_job`.
    """
    if is_as_group(member, group):
        return member
    reply = {"reply_timeout_s": member.spec.reply_timeout_s}
    return replace(
        member,
        spec=group.spec.model_copy(update=of_a_member(group.spec) | reply),
        payload=group.payload,
        type_version=group.type_version,
        bundle_mb=group.bundle_mb,
        given=group.given,
        edit=group.edit,
        spec_of=None if inline else group.job_id,
    )
