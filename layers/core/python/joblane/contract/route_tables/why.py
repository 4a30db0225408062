"""The route that says why a job waits, runs on or has ended."""

from typing import Final

from joblane.contract.route import Route
from joblane.contract.why import Why, WhyQuery

WHY_ROUTES: Final = (
    Route(
        "explainJob",
        "GET",
        "/v1/jobs/{job_id}/why",
        ("jobs.read",),
        "Explain why a job waits, runs on or has ended",
        Why,
        query=WhyQuery,
    ),
)
