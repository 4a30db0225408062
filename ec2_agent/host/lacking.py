"""Jobs for which this host lacks something: their messages are left to other agents.

What a host can limit shows when a job is started, so each agent claims such a job once; a job for
which its disk has no room now is claimed again later, and jobs that need less go on here:

    agent A                         lane                     agent B
    claims, cannot limit disk_mb
    gives it back  ------------->   message
                                    message  ----------->    claims and runs it
    remembers the job: receives it again (B was not faster), gives it back without a claim
"""

from collections import OrderedDict
from collections.abc import Callable

REMEMBERED = 1000
"""Jobs that are remembered; one that is forgotten is claimed once more."""

FOREVER = float("inf")


class LackingHost:
    """The jobs that this host cannot run, now or at any time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._jobs: OrderedDict[str, float] = OrderedDict()
        """Up to when each is left to others, by job id."""

    def remember(self, job_id: str, seconds: float = FOREVER) -> None:
        """Leave a job to other agents for so long."""
        self._jobs[job_id] = self._monotonic() + seconds
        while len(self._jobs) > REMEMBERED:
            self._jobs.popitem(last=False)

    def knows(self, job_id: str) -> bool:
        """Whether a job is one of them."""
        return job_id in self._jobs and self._monotonic() < self._jobs[job_id]
