"""Whether the fleets of a queue can run a job."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from joblane.job.spec import Submission
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
