"""Routes of dead jobs."""

from http import HTTPStatus
from typing import Final

from joblane.contract.audit import Restart
from joblane.contract.job import Job
from joblane.contract.operator_answers import DeadDismissed, DeadReplayed
from joblane.contract.operator_queries import SelectDead
from joblane.contract.query import PageQuery
from joblane.contract.route import Route
from joblane.contract.route_kinds import change, sweep
from joblane.contract.views import JobPage

_DEAD = "/v1/dlq/{job_id}"

DEAD_LETTER_ROUTES: Final = (
    Route(
        "listDeadLetters",
        "GET",
        "/v1/dlq",
        ("admin.read",),
        "List dead jobs, newest first",
        JobPage,
        query=PageQuery,
    ),
    sweep(
        "replayJobs",
        "/v1/dlq/replay",
        "replay-jobs",
        "admin.mutate",
        "Replay the dead jobs that filters select, a page at a time",
        DeadReplayed,
        SelectDead,
        body=Restart,
    ),
    sweep(
        "dismissJobs",
        "/v1/dlq/dismiss",
        "dismiss-jobs",
        "admin.mutate",
        "Dismiss the dead jobs that filters select, a page at a time",
        DeadDismissed,
        SelectDead,
    ),
    change("replayJob", _DEAD, "replay", "admin.mutate", "Replay a dead job", Job, body=Restart),
    change(
        "dismissJob",
        _DEAD,
        "dismiss",
        "admin.mutate",
        "Dismiss a dead job",
        Job,
        status=HTTPStatus.OK,
    ),
)
