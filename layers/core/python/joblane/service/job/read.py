"""Read a tenant's jobs: one, the dead ones, and their views; search.py has lists."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.payload_store import PayloadLost, PayloadStore
from joblane.aws.job.result_store import ResultStore
from joblane.aws.queue.settings import SettingsStore
from joblane.contract.job import Job, Progress, Stats, job_view
from joblane.contract.models import View
from joblane.contract.queue_of_job import explain, explain_gone
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.message import is_id
from joblane.queue.settings import UNSET
from joblane.state.lease import Progress as ReportedProgress
from joblane.state.lifecycle import State


@dataclass(frozen=True)
class JobReader:
    """Reads jobs as their tenant sees them."""

    jobs: JobStore
    clock: Callable[[], float]

    def find(self, tenant: str, job_id: str) -> Head | None:
        """Read one job; None if it is absent, expired, or another tenant's."""
        head = self.jobs.get(job_id) if is_id(job_id) else None
        visible = head is not None and head.visible_to(tenant, self.clock())
        return head if visible else None

    def read_dead(
        self, tenant: str, limit: int, before: str | None
    ) -> tuple[list[Head], str | None]:
        """Read a page of dead jobs, newest first."""
        heads, following = self.jobs.attention_page(tenant, State.DEAD, limit=limit, before=before)
        now_s = self.clock()
        return [head for head in heads if head.visible_to(tenant, now_s)], following


@dataclass(frozen=True)
class JobViews:
    """Converts jobs to their views in the API."""

    payloads: PayloadStore
    results: ResultStore
    settings: SettingsStore
    agents: AgentStore
    queues: Collection[str]
    """Those of joblane.toml."""
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def show_whole(self, head: Head) -> Job:
        """Show a job with its whole submission, its result and its progress.

        The submission is abridged if it is lost, and beside a result in S3: an answer does not have
        room for both.
        """
        if head.result_object is None:
            with suppress(PayloadLost):
                head = self.payloads.read_whole(head)
        (view,) = self.show_many([head], whole=True)
        return view.model_copy(update={"result": self._result(head), **self._running(head)})

    def _result(self, head: Head) -> object:
        """The result of a completed job; None also if it has expired before its job."""
        result = head.result if head.result_object is None else self.results.read(head)
        return None if result is None else json.loads(result)

    def _running(self, head: Head) -> dict[str, View]:
        """What the holder of a running job has of it in its heartbeat, with one read."""
        if head.state is not State.ACTIVE or head.agent is None:
            return {}
        row = self.agents.get(head.agent)
        if row is None:
            return {}
        found: dict[str, View] = {}
        if (said := row.progress_of(head.job_id, head.epoch)) is not None:
            found["progress"] = _progress(said)
        used = row.stats.get(head.job_id)
        if used is not None and row.beat_ms >= head.timeline[-1].at_ms:  # not of a claim before
            at = rfc3339(row.beat_ms)
            found["stats"] = Stats(cpus=used.cpus, memory_mb=used.memory_mb, at=at)
        return found

    def show_many(self, heads: Sequence[Head], *, whole: bool = False) -> list[Job]:
        """Show jobs, with abridged submissions unless `whole`.

        Reads once whether the queues of waiting ones are paused.
        """
        waiting = {head.queue for head in heads if head.state in {State.PENDING, State.RETRY}}
        waiting.intersection_update(self.queues)
        found = self.settings.get_all(waiting)
        now_ms = int(self.clock() * 1000)
        shown = []
        for head in heads:
            job = job_view(head, whole=whole)
            if head.queue in self.queues:
                job = explain(job, found.get(head.queue, UNSET))
            elif head.assigned is None:
                job = explain_gone(job)
            why = None if head.reply_by_ms is None else _overdue(head, now_ms)
            shown.append(job if why is None else job.model_copy(update={"reason": why}))
        return shown


def _overdue(head: Head, now_ms: int) -> str | None:
    """Why a job that waits for its only agent is about to fail; None if it is not."""
    from joblane.job.assigned import overdue  # most jobs are for any agent

    return overdue(head, now_ms)


def _progress(said: ReportedProgress) -> Progress:
    return Progress(
        percent=said.percent,
        message=said.message,
        step=said.step,
        current=said.current,
        total=said.total,
        at=rfc3339(said.at_ms),
    )
