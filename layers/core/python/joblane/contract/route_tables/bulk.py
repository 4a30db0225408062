"""Routes that change all jobs of a queue, a page at a time."""

from typing import Final

from joblane.contract.audit import Restart
from joblane.contract.operator_answers import Requeued, Restarted
from joblane.contract.operator_queries import WorkQuery
from joblane.contract.route_kinds import sweep

_QUEUE = "/v1/queues/{queue}"

BULK_ROUTES: Final = (
    sweep(
        "requeueJobs",
        f"{_QUEUE}/requeue",
        "requeue",
        "admin.mutate",
        "Send messages of open jobs again, a page at a time",
        Requeued,
        WorkQuery,
    ),
    sweep(
        "restartFailedJobs",
        f"{_QUEUE}/restart-failed",
        "restart-failed",
        "admin.mutate",
        "Restart failed and dead jobs, a page at a time",
        Restarted,
        WorkQuery,
        body=Restart,
    ),
)
