"""Routes that show what goes on, behind `status`: they change nothing and are read often."""

from typing import Final

from joblane.contract.route import Route
from joblane.contract.status import Summary

STATUS_ROUTES: Final = (
    Route(
        "GET",
        "/v1/summary",
        ("jobs.read", "platform.read"),
        "Show the caller, its jobs and limits, and the agents of its queues",
        Summary,
    ),
)
