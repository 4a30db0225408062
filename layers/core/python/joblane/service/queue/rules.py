"""Which jobs each queue takes: its tenants, whether it is retired, and what its fleets give."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from joblane.contract.problems import wrong
from joblane.job.spec import Submission
from joblane.queue.access import open_queues
from joblane.queue.fit import find_misfit
from joblane.queue.maxima import Maxima
from joblane.queue.retired import Retired, why_retired


@dataclass(frozen=True)
class QueueRules:
    """The queues of joblane.toml, as jobs meet them."""

    tenants: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none listed means all."""
    retired: Retired
    maxima: Mapping[str, tuple[Maxima, ...]]
    """The most that a job of each queue may ask for, by fleet."""
    without_host_network: Collection[str]
    """Queues that have fleets, none of which allows the network `host`."""

    def open_to(self, tenant: str) -> list[str]:
        """The queues that a tenant may use, also those that take no more jobs."""
        return open_queues(self.tenants, tenant)

    def require(self, tenant: str, queue: str) -> None:
        """Raise Invalid for a queue that the tenant may not use: a job that has it stays in it.

        One that is retired is allowed: what is there runs.
        """
        if queue not in self.open_to(tenant):
            raise wrong("queue", self.refusal(tenant, queue))

    def require_open(self, tenant: str, queue: str) -> None:
        """Raise Invalid as `require`, and for a queue that is retired: a job comes to it."""
        self.require(tenant, queue)
        if queue in self.retired:
            raise wrong("queue", self.refusal(tenant, queue))

    def refusal(self, tenant: str, queue: str) -> str:
        """Why a job may not name a queue, and which it may."""
        usable = self.open_to(tenant)
        names = ", ".join(each for each in usable if each not in self.retired) or "none"
        why = why_retired(queue, self.retired, usable) if queue in usable else None
        return f"{why or 'is unknown'}; this tenant may use {names}"

    def check_fleets(self, spec: Submission) -> None:
        """Refuse what no fleet of the job's queue gives; a target may name an agent of no fleet.

        Raises Invalid naming the field.
        """
        found = find_misfit(spec.queue or "", spec, self.maxima, self.without_host_network)
        if found is not None:
            raise wrong(*found)

    def why_not(self, tenant: str, queue: str, spec: Submission) -> str | None:
        """Why a job that has another queue cannot move to this one; None if it can."""
        if queue not in self.open_to(tenant):
            return f"tenant {tenant} may not use it"
        found = find_misfit(queue, spec, self.maxima, self.without_host_network)
        return None if found is None else f"{found.field} {found.problem}"
