"""Choose the queue of a job, and explain the choice.

The queue that the submission or its type names, else the first whose filter is true, else the
default queue: `joblane.queue.routing`. Filters are compiled when the first one is evaluated.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from joblane.contract.principal import Principal
from joblane.contract.problems import wrong
from joblane.contract.queue_of_job import QueueChoice, QueueVerdict
from joblane.job.spec import Submission
from joblane.queue.routing import (
    ChosenQueue,
    DefaultQueues,
    Evaluate,
    QueueFilter,
    attributes,
    choose,
    explain,
)
from joblane.service.log import Log
from joblane.service.queue.rules import QueueRules

if TYPE_CHECKING:
    from joblane.queue.filters import CompiledFilter


@dataclass(frozen=True)
class QueueRouter:
    """The queues of one deployment with their filters."""

    rules: QueueRules
    defaults: DefaultQueues
    filters: tuple[QueueFilter, ...]
    """By falling order."""
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
        allowed = self.rules.open_to(by.tenant)
        choice = self._choose(by, spec, now_ms)
        entries = explain(
            choice,
            spec.queue,
            allowed,
            self.defaults.of(by.tenant),
            self.filters,
            self.rules.retired,
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

    def _choose(self, by: Principal, spec: Submission, now_ms: int) -> ChosenQueue:
        allowed = self.rules.open_to(by.tenant)
        evaluate = self._evaluator(by, spec, now_ms)
        return choose(
            spec.queue,
            allowed,
            self.defaults.of(by.tenant),
            self.filters,
            evaluate,
            self.rules.retired,
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
        if named is not None:
            return self.rules.refusal(tenant, named)
        names = ", ".join(self._usable(tenant)) or "none"
        why = "no filter is true for this job, and the default queue is not this tenant's"
        return f"is required: {why}; it may name {names}"

    def _usable(self, tenant: str) -> list[str]:
        return [each for each in self.rules.open_to(tenant) if each not in self.rules.retired]
