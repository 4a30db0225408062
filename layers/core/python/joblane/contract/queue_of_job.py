"""The queue of a job in the API: which one takes it, and why it waits in one that starts none."""

from joblane.contract.job import Job
from joblane.contract.models import View
from joblane.formats.times import rfc3339
from joblane.queue.routing import Verdict
from joblane.queue.settings import QueueSettings
from joblane.state.lifecycle import State


class QueueVerdict(View):
    """A queue, and whether it takes a job."""

    queue: str
    """The queue's name."""
    filter_order: int | None
    """Order of its filter; null without a filter."""
    filter: str | None
    """Its filter; null without one."""
    verdict: Verdict
    """`takes`, or why not: `false` (the filter is false), `error` (it cannot be evaluated),
    `not_reached` (an earlier queue takes the job, or the submission names one), `no_filter` (it
    takes jobs by name only), `retired` (it takes no more jobs), `not_allowed` (the submission names
    it, and it is not a queue of this tenant)."""
    reason: str
    """The same as a sentence."""


class QueueChoice(View):
    """Which queue would take a job."""

    queue: str | None
    """The queue; null if none takes the job: then a submission is refused."""
    reason: str
    """Why."""
    entries: tuple[QueueVerdict, ...]
    """The queues that the caller's tenant may use, in the order in which they are considered."""


def explain(job: Job, settings: QueueSettings) -> Job:
    """Give a job that waits in a paused queue this reason."""
    if settings.run_jobs or job.state not in {State.PENDING, State.RETRY}:
        return job
    since = "" if settings.changed_ms is None else f" since {rfc3339(settings.changed_ms)}"
    paused = f"queue {job.queue} is paused{since} and starts no jobs until it is resumed"
    reason = paused if job.state is State.PENDING else f"{job.reason}; {paused}"
    return job.model_copy(update={"reason": reason})


def explain_gone(job: Job) -> Job:
    """Give a job that cannot start as joblane.toml has its queue no more this reason."""
    if job.state not in {State.PENDING, State.RETRY}:
        return job
    gone = f"queue {job.queue} is gone, joblane.toml has it no more: joblane why {job.id}"
    reason = gone if job.state is State.PENDING else f"{job.reason}; {gone}"
    return job.model_copy(update={"reason": reason})
