"""Routes that show what goes on."""

from typing import Final

from joblane.contract.route import SWEEPS, Route
from joblane.contract.status import ActivityQuery, FleetPage, QueueActivity, Summary

STATUS_ROUTES: Final = (
    Route(
        "getSummary",
        "GET",
        "/v1/summary",
        ("jobs.read", "platform.read"),
        "Show the caller, its jobs and limits, and the agents of its queues",
        Summary,
    ),
    Route(
        "getQueueActivity",
        "GET",
        "/v1/queues/{queue}/activity",
        ("jobs.read", "platform.read"),
        "Show the activity of a queue over time",
        QueueActivity,
        query=ActivityQuery,
    ),
    Route(
        "listFleets",
        "GET",
        "/v1/fleets",
        ("platform.read",),
        "List fleets with the state and activities of their groups",
        FleetPage,
        rate=SWEEPS,
    ),
)
