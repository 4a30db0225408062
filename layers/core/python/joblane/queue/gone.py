"""Queues that joblane.toml has no more while jobs name them: what is said of these jobs."""


def what_to_do(job_id: str, queue: str) -> str:
    """Why a job cannot be sent to its lane, with the commands that help."""
    return (
        f"queue {queue} is gone: joblane.toml has it no more; joblane edit {job_id} --queue NAME "
        f"moves the job, joblane cancel {job_id} ends it"
    )


def refusal_of_new(queue: str) -> str:
    """Why a new job is refused, as a problem of its field `queue`."""
    return f"names {queue}, which is gone: joblane.toml has it no more; name another queue, or none"
