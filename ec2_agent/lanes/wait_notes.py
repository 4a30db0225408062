"""Writes into jobs what they wait for at this agent."""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from ec2_agent.calls import AWS_ERRORS, in_thread
from joblane.aws.jobs import JobStore, Refused

NOTE_AFTER_S = 5.0
"""A job that waits for longer says so; one that waits for less costs no write."""

NOTED = 1000
"""Jobs whose wait is remembered as written."""


@dataclass(eq=False)
class WaitNotes:
    """Writes one note into each job: one write for each job and agent."""

    jobs: JobStore

    def __post_init__(self) -> None:
        self._noted: deque[str] = deque(maxlen=NOTED)

    def is_new(self, job_id: str) -> bool:
        """Whether nothing has been written into this job yet; from now on it has."""
        if job_id in self._noted:
            return False
        self._noted.append(job_id)
        return True

    async def write(self, job_id: str, text: str) -> bool:
        """Write what a job waits for, if it still does. Returns whether its row was there.

        It is new again if AWS did not answer, or if its row was not there: a message is sent before
        the row is written.
        """
        try:
            await in_thread(lambda: self.jobs.note_wait(job_id, text), "note wait")
        except Refused as refusal:
            if refusal.head is None:
                self._forget(job_id)
                return False
        except AWS_ERRORS:
            self._forget(job_id)
        return True

    def _forget(self, job_id: str) -> None:
        with suppress(ValueError):  # so many others were noted meanwhile
            self._noted.remove(job_id)
