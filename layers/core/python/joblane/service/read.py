"""Read a tenant's jobs: one, a page that filters select, the dead ones, and their views."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

from joblane.aws.jobs import JobStore
from joblane.aws.payload_store import PayloadLost, PayloadStore
from joblane.aws.settings import SettingsStore
from joblane.contract.job import Job, job_view
from joblane.contract.problems import Problem
from joblane.contract.queries import ListJobs
from joblane.contract.queues import explained
from joblane.job.head import Head
from joblane.job.lifecycle import State
from joblane.job.message import JOB_ID_PATTERN
from joblane.queue.settings import UNSET
from joblane.service.search import Found, search


class JobReader:
    """Reads jobs as their tenant sees them."""

    def __init__(self, jobs: JobStore, clock: Callable[[], float]) -> None:
        self._jobs = jobs
        self._clock = clock

    def find(self, tenant: str, job_id: str) -> Head | None:
        """Read one job; None if it is absent, expired, or another tenant's."""
        head = self._jobs.get(job_id) if re.match(JOB_ID_PATTERN, job_id) else None
        visible = head is not None and head.visible_to(tenant, self._clock())
        return head if visible else None

    def job(self, tenant: str, job_id: str) -> Head:
        """Read one job; raises Problem 404 where `find` returns None."""
        head = self.find(tenant, job_id)
        if head is None:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such job")
        return head

    def search(self, tenant: str, query: ListJobs, before: str | None) -> Found:
        """Read a page of the jobs that `query` selects, newest first."""
        return search(self._jobs, tenant, query, before, self._clock())

    def dead(self, tenant: str, limit: int, before: str | None) -> tuple[list[Head], str | None]:
        """Read a page of dead jobs, newest first."""
        heads, following = self._jobs.attention_page(tenant, State.DEAD, limit=limit, before=before)
        now_s = self._clock()
        return [head for head in heads if head.visible_to(tenant, now_s)], following


class JobViews:
    """Converts jobs to their views in the API."""

    def __init__(self, payloads: PayloadStore, settings: SettingsStore) -> None:
        self._payloads = payloads
        self._settings = settings

    def whole(self, head: Head) -> Job:
        """Show a job with its whole submission, or with an abridged one if that is lost."""
        with suppress(PayloadLost):
            head = self._payloads.whole(head)
        (view,) = self._views([head], whole=True)
        return view

    def listed(self, heads: Sequence[Head]) -> list[Job]:
        """Show jobs with abridged submissions."""
        return self._views(heads, whole=False)

    def _views(self, heads: Sequence[Head], *, whole: bool) -> list[Job]:
        """Show jobs; reads once whether the queues of waiting ones are paused."""
        waiting = {head.queue for head in heads if head.state in {State.PENDING, State.RETRY}}
        found = self._settings.get_all(waiting)
        return [
            explained(job_view(head, whole=whole), found.get(head.queue, UNSET)) for head in heads
        ]
