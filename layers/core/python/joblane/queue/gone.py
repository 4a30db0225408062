"""Queues that joblane.toml has no more while jobs name them: what is said of these jobs."""

from joblane.job.head import Head
from joblane.job.offers import offers


def ways_out(head: Head, now_ms: int) -> tuple[str, ...]:
    """The commands that take a job out of its queue, of those that the API takes then."""
    may = offers(head, now_ms)
    commands = (
        ("edit", f"joblane edit {head.job_id} --queue NAME"),
        ("cancel", f"joblane cancel {head.job_id}"),
    )
    return tuple(command for name, command in commands if name in may)


def why_gone(head: Head, now_ms: int) -> str:
    """Why a job cannot be sent to its lane, with the commands that help."""
    commands = " or ".join(ways_out(head, now_ms))
    why = f"queue {head.queue} is gone: joblane.toml has it no more"
    return f"{why}; {commands}" if commands else why


def refusal_of_new(queue: str) -> str:
    """Why a new job is refused, as a problem of its field `queue`."""
    return f"names {queue}, which is gone: joblane.toml has it no more; name another queue, or none"
