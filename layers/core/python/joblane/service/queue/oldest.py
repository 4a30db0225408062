"""Find a tenant's oldest waiting jobs, by queue and by job type."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from joblane.aws.job.waiting import WaitingJobs
from joblane.deployment.names import PLATFORM
from joblane.queue.backlog import Backlog
from joblane.queue.oldest import Of, Oldest, about, find_oldest
from joblane.queue.submitted import Submitted


@dataclass(frozen=True)
class OldestJobs:
    """Finds them where counts say that they are."""

    jobs: WaitingJobs

    def find(self, tenant: str, backlog: Backlog, wanted: Iterable[Of]) -> dict[Of, Oldest]:
        """Return the oldest of each that has one: twelve requests at most for a tenant.

        The role platform reads no jobs: it gets what the counts of all tenants say.
        """
        due = {of: _due(backlog, of) for of in wanted}
        if tenant == PLATFORM:
            counted = {of: about(submitted) for of, submitted in due.items()}
            return {of: oldest for of, oldest in counted.items() if oldest is not None}
        return find_oldest(due, partial(self.jobs.page, tenant))


def _due(backlog: Backlog, of: Of) -> Submitted:
    kind, name = of
    return backlog.due_in_queue(name) if kind == "queue" else backlog.due_of_type(name)
