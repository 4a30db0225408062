"""Whether a queue can run a job: the tenants that may use it, and what its fleets give."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from joblane.job.spec import Submission
from joblane.queue.access import open_queues
from joblane.queue.maxima import Maxima, excess, problem_of
from joblane.target.match import ANY


class Misfit(NamedTuple):
    """A field of a submission that a queue does not take."""

    field: str
    problem: str


def find_misfit(
    queue: str,
    spec: Submission,
    maxima: Mapping[str, Iterable[Maxima]],
    without_host_network: Collection[str],
) -> Misfit | None:
    """What no fleet of the queue gives; None if one gives it all, or it has no fleets.

    `maxima` are those of the fleets of each queue. `without_host_network` has the queues whose
    fleets do not allow the network `host`; a target may name an agent of no fleet, which does.
    """
    if spec.network == "host" and spec.target in {None, ANY} and queue in without_host_network:
        problem = (
            f"must be none or egress: no fleet of queue {queue} allows host (allow_host_network)"
        )
        return Misfit("network", problem)
    if (found := excess(spec.resources, maxima.get(queue, ()))) is not None:
        field, most = found
        return Misfit(f"resources.{field}", problem_of(field, most, queue))
    return None


def why_not_in(
    queue: str,
    tenant: str,
    spec: Submission,
    tenants: Mapping[str, Iterable[str]],
    maxima: Mapping[str, Iterable[Maxima]],
    without_host_network: Collection[str],
) -> str | None:
    """Why a job of a tenant cannot move to a queue, as a sentence; None if it can.

    `tenants` are those of each queue; none listed means all. The rest as in `find_misfit`.
    """
    if queue not in open_queues(tenants, tenant):
        return f"tenant {tenant} may not use it"
    found = find_misfit(queue, spec, maxima, without_host_network)
    return None if found is None else f"{found.field} {found.problem}"
