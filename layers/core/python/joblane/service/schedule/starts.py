"""Start what a schedule starts: a submission by its tenant, or a requeue."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from joblane.audit.who import Who
from joblane.contract.principal import Principal
from joblane.contract.problems import Invalid, NotFound, Problem, wrong
from joblane.formats.text import some
from joblane.job.head import Head
from joblane.queue.access import open_queues
from joblane.schedule.fields import RequeueTemplate, Template
from joblane.schedule.record import Schedule
from joblane.service.job.submit import Submitter

if TYPE_CHECKING:  # few schedules requeue
    from joblane.service.job.bulk import BulkOperations, Selection
    from joblane.service.job.edit import Edits

PAGE: Final = 100
"""Jobs that a requeue examines at once."""

DECLARED_BY: Final = Who("machine", "joblane.toml", "joblane.toml")
"""Who submits the jobs of schedules that joblane.toml declares."""


@dataclass(frozen=True, slots=True)
class Started:
    """What was started."""

    job_id: str | None
    """Id of the job or group; of a submission that was coalesced, of the one that stands for it.
    None for a requeue."""
    text: str = ""
    """What the result says of it."""


@dataclass(frozen=True)
class Starts:
    """Starts what schedules start, with the rights and limits that their tenants have now."""

    submitter: Submitter
    tenants: frozenset[str]
    """Those of joblane.toml."""
    bulk: "Callable[[], BulkOperations]"
    """Returns what requeues jobs; few schedules do."""
    edits: "Callable[[], Edits]"

    def start(
        self,
        schedule: Schedule,
        template: Template,
        job_id: str,
        due_ms: int,
        left_s: Callable[[], float],
        by: Principal | None = None,
    ) -> Started:
        """Start it for a due time, under an id that is used once: repeated, nothing new is made.

        `left_s` returns the seconds that it may take; `by` is who asked for it, without whom it is
        who created the schedule. Raises Problem if it is not accepted.
        """
        by = by or self.owner(schedule)
        if template.requeue is not None:
            return self._requeue(by, template.requeue, left_s)
        if (closed := self.submitter.limits.explain_closed(by.tenant)) is not None:
            raise closed
        now_ms = self.submitter.now_ms()
        head = self.make_head(by, schedule, template, job_id, due_ms)
        outcome = self.submitter.accept(self.submitter.check_new(head, now_ms), None, now_ms)
        if outcome.admission == "coalesced":
            text = f"coalesced: {outcome.head.job_id} stands for it"
            return Started(outcome.head.job_id, text)
        return Started(outcome.head.job_id)

    def check(self, schedule: Schedule, template: Template) -> None:
        """Check what a schedule starts as if it were due now. Raises Problem."""
        now_ms = self.submitter.now_ms()
        if (requeue := template.requeue) is not None:
            self._select(self.bulk(), schedule.tenant, requeue)
            return
        by, job_id = self.owner(schedule), schedule.job_of(now_ms)
        head = self.make_head(by, schedule, template, job_id, now_ms)
        self.submitter.check_new(head, now_ms)

    def make_head(
        self, by: Principal, schedule: Schedule, template: Template, job_id: str, due_ms: int
    ) -> Head:
        """The job of a submission. Raises Problem, as a submission by the tenant would."""
        if by.tenant not in self.tenants:
            raise Invalid(f"the tenant {by.tenant} is not in joblane.toml any more")
        if template.submission is None:
            raise wrong("submission", "required")
        now_ms = self.submitter.now_ms()
        head = self.submitter.make_head(by, template.submission, job_id, now_ms, None)
        return replace(head, schedule=schedule.name, scheduled_ms=due_ms)

    @staticmethod
    def owner(schedule: Schedule) -> Principal:
        """Who submits what a schedule starts: who created it, in its tenant."""
        who = schedule.created_by or DECLARED_BY
        return Principal(who.kind, who.subject, who.name, schedule.tenant, None, frozenset())

    @staticmethod
    def _select(bulk: "BulkOperations", tenant: str, wanted: RequeueTemplate) -> "Selection":
        """The jobs of a requeue. Raises Invalid naming the wrong field."""
        known = open_queues(bulk.queues, tenant)
        if wanted.queue not in known:
            may = ", ".join(known)
            raise wrong("requeue.queue", f"is unknown; this tenant may use {may}")
        try:
            return bulk.selection(tenant, wanted.queue, wanted.type)
        except NotFound:
            raise wrong("requeue.type", "is unknown; GET /v1/types lists all") from None

    def _requeue(
        self, by: Principal, wanted: RequeueTemplate, left_s: Callable[[], float]
    ) -> Started:
        """Send messages of open jobs again, page by page; with a priority, move those that wait."""
        bulk = self.bulk()
        selection = self._select(bulk, by.tenant, wanted)
        done, before = 0, None
        refused: Mapping[str, str] = {}
        moved = 0
        while True:
            now_ms = self.submitter.now_ms()
            if wanted.priority is not None:
                moved += self._move(by, selection.holds, wanted.priority, before)
            result = bulk.requeue(selection, now_ms, limit=PAGE, before=before)
            done, refused, before = (
                done + result.done,
                {**refused, **result.refused},
                result.following,
            )
            if before is None:
                break
            if left_s() <= 0:
                return Started(None, f"stopped for lack of time after {some(done, 'message')}")
        moves = f", {some(moved, 'job')} moved to the lane {wanted.priority}" if moved else ""
        lost = f", {len(refused)} refused" if refused else ""
        return Started(None, f"{some(done, 'message')} sent again{moves}{lost}")

    def _move(
        self, by: Principal, holds: Callable[[Head], bool], priority: str, before: str | None
    ) -> int:
        """Edit the priority of waiting jobs of a page of the tenant's newest ones."""
        from joblane.job.moves import NotAllowed
        from joblane.service.job.operations import Gone

        if before is not None and ":" in before:
            return 0  # members of a group are not edited
        heads, _ = self.submitter.jobs.page(by.tenant, limit=PAGE, before=before)
        moved = 0
        for head in heads:
            if not holds(head) or head.lane == priority or head.ended:
                continue
            try:
                patch = {"priority": priority}
                self.edits().edit(
                    head, patch, f"moved by a schedule of {by}", self.submitter.now_ms()
                )
            except (NotAllowed, Gone, Problem):
                continue  # it runs, has ended, or is of a group
            moved += 1
        return moved
