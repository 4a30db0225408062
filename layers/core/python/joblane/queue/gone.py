"""Queues that joblane.toml has no more while jobs name them: what is said of these jobs."""

from joblane.job.edit import check_editable
from joblane.job.head import Head
from joblane.job.moves import NotAllowed


def ways_out(head: Head) -> tuple[str, ...]:
    """The commands that take a job out of its queue, as far as its state allows them."""
    commands = []
    try:
        check_editable(head)
        commands.append(f"joblane edit {head.job_id} --queue NAME")
    except NotAllowed:
        pass
    if not head.ended and head.cancel_requested is None:
        commands.append(f"joblane cancel {head.job_id}")
    return tuple(commands)


def why_gone(head: Head) -> str:
    """Why a job cannot be sent to its lane, with the commands that help."""
    commands = " or ".join(ways_out(head))
    why = f"queue {head.queue} is gone: joblane.toml has it no more"
    return f"{why}; {commands}" if commands else why


def refusal_of_new(queue: str) -> str:
    """Why a new job is refused, as a problem of its field `queue`."""
    return f"names {queue}, which is gone: joblane.toml has it no more; name another queue, or none"
