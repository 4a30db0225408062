"""Delete a job that is not running, with its output, its dead letter and what it has in S3."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.job.idempotency import IdempotencyStore
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.job.output_store import OutputStore
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.contract.problems import Problem, TryAgain
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.job.output import epoch_end, stream_name
from joblane.job.refusals import running
from joblane.service.audit.trail import Trail
from joblane.service.job.operations import Gone, unless_gone
from joblane.state.lifecycle import State

if TYPE_CHECKING:
    from joblane.aws.files.output_store import OutputFileStore

OUTPUT_CALLS = 10
"""Parts of a job's output that one request deletes, 1 MB of the table or less each. A partition of
DynamoDB takes 1,000 write units a second, so this takes 10 s at most."""

OUTPUT_S = 15.0
"""Seconds after which a request deletes no more output: streams that turn out to be empty, or
output files, of which it deletes a thousand in about a second."""


@dataclass(frozen=True)
class JobDeleter:
    """Deletes jobs."""

    jobs: JobStore
    payloads: PayloadStore
    results: ResultStore
    output: OutputStore
    files: "Callable[[], OutputFileStore]"
    """Returns what holds output files, which few jobs have."""
    keys: IdempotencyStore
    trail: Trail
    clock: Callable[[], float]

    def delete(self, head: Head, *, exact: bool) -> None:
        """Delete a job; its submitter stays in the audit trail.

        `exact` deletes it only as `head` shows it, or raises Refused. Raises NotAllowed if it is
        running or a member of a group, and Gone if it was deleted. Its output goes first: while
        there is any, the job is there, so that the request can be repeated after a crash. Raises
        TryAgain if the output is so large that the request has to be repeated. Output that an
        agent without a lease ships later expires.
        """
        if head.member_of is not None:
            raise NotAllowed(
                f"the job is a member of group {head.member_of.group_id}, and is deleted with it"
            )
        if head.state is State.ACTIVE:
            raise NotAllowed(running(head))
        self.keep(head)
        # What becomes a group meanwhile has members by then.
        seen = head if exact or head.spec.makes_group else None
        self._delete_output(head)
        self._delete_files(head)
        try:
            unless_gone(lambda: self.jobs.delete(head.job_id, seen))
        except Refused as refusal:
            if refusal.head is None or refusal.head.state is not State.ACTIVE or exact:
                raise
            raise NotAllowed(running(refusal.head)) from None  # it started meanwhile
        self.payloads.delete(head)
        self.results.delete(head)

    def keep(self, head: Head) -> None:
        """Keep what outlives a job: its submitter, and that its Idempotency-Key was used."""
        self.trail.keep_submission(head)
        if head.idempotency_row is not None:
            self.keys.note_deletion(head.idempotency_row, head.job_id, int(self.clock()))

    def remove(self, member: Head) -> None:
        """Delete an ended member of a group, as it was read, with its output and its result.

        One that is deleted already is no error. Raises Refused if it has changed, and TryAgain.
        """
        self._delete_output(member)
        self._delete_files(member)
        with suppress(Gone):
            unless_gone(lambda: self.jobs.delete(member.job_id, member))
        self.results.delete(member)

    def _delete_output(self, head: Head) -> None:
        calls, began = 0, self.clock()
        for epoch in range(1, head.epoch + 1):
            end = epoch_end(head, epoch)
            if end is not None and end.records == 0:
                continue
            stream = stream_name(head.tenant, head.job_id, epoch)
            while not self.output.delete(stream):
                calls += 1
                if calls == OUTPUT_CALLS:
                    raise _more()
            if self.clock() - began > OUTPUT_S:
                raise _more()

    def _delete_files(self, head: Head) -> None:
        """Delete the output files of all attempts, also of those that stored no summary of them."""
        if head.epoch == 0 or not (head.spec.outputs or head.output_files):
            return
        files, began = self.files(), self.clock()
        while not files.delete(head.tenant, head.job_id):
            if self.clock() - began > OUTPUT_S:
                raise _more()


def _more() -> Problem:
    return TryAgain(
        "the job has more output than one request deletes; send the request again",
        retry_after_s=1,
    )
