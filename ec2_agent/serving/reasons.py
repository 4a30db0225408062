"""Writes into jobs what they wait for at this agent."""

from collections import OrderedDict

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from ec2_agent.serving.verdict import Wait
from joblane.aws.job.jobs import JobStore, Refused
from joblane.job.message import Message

NOTE_AFTER_S = 5.0
"""A job that waits for longer says so; one that waits for less costs no write."""

NOTED = 1000
"""Jobs whose wait is remembered as written; one that is edited counts as another job."""


class Reasons:
    """Writes a reason into each job: one write for each job, agent and kind of wait."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._noted: OrderedDict[tuple[str, int], set[Wait]] = OrderedDict()
        """By job and edit, which removes what was written; the one noted last is at the end."""

    async def note(self, message: Message, wait: Wait, why: str) -> bool:
        """Write what a job waits for, if it still does, and has not been told so yet.

        Returns False if it is to be tried again: AWS did not answer, or the job's row was not there
        yet, for a message is sent before the row is written.
        """
        noted = self._noted.setdefault(_of(message), set())
        if wait in noted:
            return True
        noted.add(wait)
        if len(self._noted) > NOTED:
            self._noted.popitem(last=False)
        events.job_waits(message, why)
        try:
            await in_thread(lambda: self._jobs.note_wait(message, why), "note wait")
        except Refused as refusal:
            if refusal.head is not None:
                return True  # it does not wait any more, or has a newer message
        except AWS_ERRORS:
            pass
        else:
            return True
        noted.discard(wait)
        return False

    def forget(self, message: Message) -> None:
        """Let the next waits of a job be written again."""
        self._noted.pop(_of(message), None)


def _of(message: Message) -> tuple[str, int]:
    return message.job_id, message.edit
