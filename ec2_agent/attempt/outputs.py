"""Collects the output files of an attempt that has ended, before its outcome is recorded.

    agent                        shim                 S3              journal         table
                                 holds the work directory
    asks for it  ------------->
    finds the files
    uploads  -------------------------------------->  files, manifest
    (killed here: the next process of its name connects to the shim, and does it again)
    outcome  ------------------------------------------------------>  stored
    releases it  ------------->  ends
    settle  --------------------------------------------------------------------->  count, bytes

If the shim was killed too, or the instance restarted, the files are gone, and the attempt is lost.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.files.collect import Bounds, CannotCollect, collect
from ec2_agent.files.transfers import Proceed, Stopped, Transfers
from ec2_agent.files.upload import OutputUpload
from ec2_agent.jobs.running import RunningJob
from ec2_agent.logging import events
from ec2_agent.retry import aws_backoff, is_aws_error, retry
from ec2_agent.sandbox.model import SHORT
from joblane.aws.files.output_store import OutputFileStore
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.deployment.limits import Limits
from joblane.files.models import OutputSummary
from joblane.job.head import Head
from joblane.job.judge import AttemptResult, not_collected
from joblane.state.lifecycle import Outcome

T = TypeVar("T")

Note = Callable[[str, int, int], None]
"""Called with what the attempt does, how many files of it are done, and how many there are."""

_GONE = "its output files are gone: its shim was killed or the instance restarted"


@dataclass(frozen=True, slots=True)
class OutputCollector:
    """Collects output files for the attempts of one agent."""

    store: OutputFileStore
    payloads: PayloadStore
    transfers: Transfers
    limits: Limits
    """Of all tenants."""

    async def collect(
        self,
        head: Head,
        job: RunningJob,
        result: AttemptResult,
        proceed: Proceed,
        note: Note,
    ) -> AttemptResult | None:
        """Upload what the attempt has left, and return its result with a summary.

        Calls to AWS are retried. Without output files, or if the attempt was interrupted or lost,
        the result stays as it is. None once `proceed` returns False.
        """
        # A submission in S3 is abridged in the head, and keeps one of its globs.
        if result.ending is None or result.outcome in _NOT_COLLECTED or not head.spec.outputs:
            return result
        try:
            summary = await self._collect(head, job, proceed, note)
        except Stopped:
            return None
        except (CannotCollect, PayloadLost) as problem:
            return not_collected(result, str(problem))
        except _Gone:
            return not_collected(result, _GONE, Outcome.LOST)
        return replace(result, output_files=summary)

    async def _collect(
        self, head: Head, job: RunningJob, proceed: Proceed, note: Note
    ) -> OutputSummary:
        retried = partial(_retry, head, proceed)
        whole = await retried(lambda: self.payloads.read_whole(head))
        globs = whole.spec.outputs
        work = await job.shim.work()
        if work is None:
            raise _Gone
        try:
            limits = self.limits.of(head.tenant)
            bounds = Bounds(
                limits.output_files_per_job, limits.output_files_mb_per_job, head.output_file_bytes
            )
            found = await retried(lambda: collect(work, globs, bounds, proceed))
            upload = OutputUpload(self.store, self.transfers, head, found, note)
            return await retried(lambda: upload.run(work, proceed))
        finally:
            os.close(work)


class _Gone(Exception):
    """No process has the work directory any more."""


_NOT_COLLECTED = frozenset({Outcome.INTERRUPTED, Outcome.LOST})
"""Outcomes after which the attempt is made again from its beginning."""


async def _retry(head: Head, proceed: Proceed, call: Callable[[], T]) -> T:
    """Make a call until AWS and this host allow it. Raises Stopped, and what else it raises."""
    try:
        return await retry(
            lambda: in_thread(call, "output files"),
            aws_backoff(),
            retryable=_retryable,
            proceed=proceed,
            event=partial(events.output_files_wait, head),
        )
    except (OSError, *AWS_ERRORS):
        if not proceed():
            raise Stopped from None
        raise


def _retryable(error: Exception) -> bool:
    return is_aws_error(error) or (isinstance(error, OSError) and error.errno in SHORT)
