"""Choose the queue of a job, and explain the choice.

The queue that the submission or its type names, else the first whose filter is true, else the
default queue: `joblane.queue.routing`. Filters are compiled when the first one is evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joblane.contract.principal import Principal
from joblane.contract.problems import wrong
from joblane.contract.queues import QueueChoice, QueueVerdict
from joblane.job.spec import Submission
from joblane.queue.access import open_queues
from joblane.queue.retired import Retired, why_retired
from joblane.queue.routing import ChosenQueue, Evaluate, QueueFilter, attributes, choose, explain
from joblane.service.log import Log

if TYPE_CHECKING:
    from joblane.queue.filters import CompiledFilter


@dataclass(frozen=True)
class QueueRouter:
    """The queues of one deployment with their filters."""

    queues: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none listed means all."""
    default_queue: str
    filters: tuple[QueueFilter, ...]
    """By falling order."""
    retired: Retired
    log: Log
    _compiled: "dict[str, CompiledFilter]" = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    """Queues whose filters have failed in this process, each logged once."""

    def route(self, by: Principal, spec: Submission, now_ms: int) -> str:
        """Return the queue of a job. Raises Invalid if the tenant may use none of them."""
        choice = self._choose(by, spec, now_ms)
        if choice.queue is None:
            raise wrong("queue", self._refusal(by.tenant, spec.queue))
        return choice.queue

    def explain(self, by: Principal, spec: Submission, now_ms: int) -> QueueChoice:
        """Say which queue a job would get, and of each queue why it does not."""
        allowed = open_queues(self.queues, by.tenant)
        choice = self._choose(by, spec, now_ms)
        entries = explain(
            choice, spec.queue, allowed, self.default_queue, self.filters, self.retired
        )
        taken = next((each.reason for each in entries if each.verdict == "takes"), None)
        return QueueChoice(
            queue=choice.queue,
            reason=taken or f"queue {self._refusal(by.tenant, spec.queue)}",
            entries=tuple(
                QueueVerdict(
                    queue=each.queue,
                    filter_order=each.filter and each.filter.order,
                    filter=each.filter and each.filter.expression,
                    verdict=each.verdict,
                    reason=each.reason,
                )
                for each in entries
            ),
        )

    def require(self, tenant: str, queue: str) -> None:
        """Raise Invalid for a queue that the tenant may not use: a job that has it stays in it.

        One that is retired is allowed: what is there runs.
        """
        if queue not in open_queues(self.queues, tenant):
            raise wrong("queue", self._refusal(tenant, queue))

    def require_open(self, tenant: str, queue: str) -> None:
        """Raise Invalid as `require`, and for a queue that is retired: a job comes to it."""
        if queue in self.retired or queue not in open_queues(self.queues, tenant):
            raise wrong("queue", self._refusal(tenant, queue))

    def _choose(self, by: Principal, spec: Submission, now_ms: int) -> ChosenQueue:
        allowed = open_queues(self.queues, by.tenant)
        evaluate = self._evaluator(by, spec, now_ms)
        return choose(
            spec.queue, allowed, self.default_queue, self.filters, evaluate, self.retired
        )

    def _evaluator(self, by: Principal, spec: Submission, now_ms: int) -> Evaluate:
        values = attributes(by.tenant, by.name, spec, now_ms) if self.filters else {}

        def evaluate(each: QueueFilter) -> bool | str:
            # Imported for the first filter: a library of 14 MB, which most deployments do without.
            from joblane.queue.filters import CompiledFilter, NotTrue

            if (compiled := self._compiled.get(each.queue)) is None:
                compiled = self._compiled[each.queue] = CompiledFilter(each.expression)
            try:
                return compiled.matches(values)
            except NotTrue as error:
                if each.queue not in self._failed:
                    self._failed.add(each.queue)
                    self.log.warning("filter failed", queue=each.queue, error=str(error))
                return str(error)

        return evaluate

    def _refusal(self, tenant: str, named: str | None) -> str:
        usable = open_queues(self.queues, tenant)
        names = ", ".join(queue for queue in usable if queue not in self.retired) or "none"
        if named in usable and (why := why_retired(named, self.retired)) is not None:
            return f"{why}; this tenant may use {names}"
        if named is not None:
            return f"is unknown; this tenant may use {names}"
        why = "no filter is true for this job, and the default queue is not this tenant's"
        return f"is required: {why}; it may name {names}"
