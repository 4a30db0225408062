"""Keep the files of jobs that wait: copy them onto themselves before S3 deletes them."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.files.kept_objects import Kept, KeptObjects
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.deployment.names import file_key
from joblane.job.head import Head
from joblane.job.renewal import DAY_S, copied_after_s
from joblane.job.spec import Submission
from joblane.state.retention import PAYLOAD_SLACK_DAYS, Retention

AT_ONCE = 8
"""Requests to S3 side by side."""


@dataclass(frozen=True)
class FileKeeper:
    """Keeps the input files of jobs, and submissions that lie in S3."""

    objects: KeptObjects
    payloads: PayloadStore
    retention: Retention
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def keep(self, head: Head, now_s: float, seen: set[str]) -> dict[Kept, int]:
        """Keep what a job needs for its start; returns what became of how many objects.

        `seen` has the keys of objects that need not be looked at again, and gets those that were
        looked at now. One request for each object, and one for each copy. Raises Unavailable.
        """
        ages = {key: after_s for key, after_s in self._objects(head) if key not in seen}
        if not ages:
            return {}
        with self.pool(min(AT_ONCE, len(ages))) as workers:
            found = [*workers.map(lambda key: self.objects.keep(key, now_s - ages[key]), ages)]
        seen.update(ages)
        return {what: found.count(what) for what in Kept if what in found}

    def _objects(self, head: Head) -> Iterator[tuple[str, int]]:
        """The keys of a job's objects, and the age from which each is copied.

        A submission in S3 stays for as long as its job can be read: it lives for the days of those
        that have ended and `PAYLOAD_SLACK_DAYS` more, of which half are left to a job that waits.
        """
        if head.payload is not None:
            yield head.payload.object, PAYLOAD_SLACK_DAYS * DAY_S // 2
        after_s = copied_after_s(self.retention.stored_files_days)
        for digest in dict.fromkeys(_digests(self._whole(head))):
            yield file_key(head.tenant, digest), after_s

    def _whole(self, head: Head) -> Submission:
        """The submission of a job with all of its files: one in S3 is abridged in the table."""
        if head.payload is None or not any(_digests(head.spec)):
            return head.spec
        try:
            return self.payloads.read_whole(head).spec
        except PayloadLost:  # its start fails with that reason
            return head.spec


def _digests(spec: Submission) -> Iterator[str]:
    """The digests of a submission's files."""
    if spec.stdin_file is not None:
        yield spec.stdin_file
    for file in spec.inputs:
        yield file.sha256
