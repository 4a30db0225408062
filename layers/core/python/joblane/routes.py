"""The routes of the API: the one table from which gateway, functions, OpenAPI and tests are made.

A route that is not here is served by nothing: the stacks make API Gateway's routes from this
table, and `joblane.web.Application.route` binds a handler only to one of them, behind its scope.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from joblane.access import Scope

Method = Literal["GET", "POST", "PUT", "DELETE"]

FunctionName = Literal["submission", "admin"]


@dataclass(frozen=True, slots=True)
class Route:
    """A path of the API, the function behind it, and the scope a caller needs."""

    method: Method
    path: str
    """With `{parameters}` as API Gateway and OpenAPI write them; handlers take them by name."""
    function: FunctionName
    scope: Scope | None
    """None leaves the route open to anyone, with or without a token."""
    summary: str
    """One line for people: what it does."""

    @property
    def key(self) -> str:
        """API Gateway's name of it: `GET /v1/jobs/{job_id}`."""
        return f"{self.method} {self.path}"


ROUTES: Final = (
    Route("POST", "/v1/jobs", "submission", "jobs.submit", "Submit a job"),
    Route("POST", "/v1/jobs/batch", "submission", "jobs.submit", "Submit up to 100 jobs"),
    Route("GET", "/v1/jobs", "submission", "jobs.read", "List jobs, newest first"),
    Route("GET", "/v1/jobs/{job_id}", "submission", "jobs.read", "Read a job"),
    Route("GET", "/v1/jobs/{job_id}/logs", "submission", "jobs.read", "Read a job's output"),
    Route("DELETE", "/v1/jobs/{job_id}", "submission", "jobs.cancel", "Delete a job"),
    Route("POST", "/v1/jobs/{job_id}/cancel", "submission", "jobs.cancel", "Cancel a job"),
    Route("POST", "/v1/jobs/{job_id}/retry", "submission", "jobs.submit", "Start a job again"),
    Route("GET", "/v1/dlq", "admin", "admin.read", "List dead jobs, newest first"),
    Route("POST", "/v1/dlq/{job_id}/replay", "admin", "admin.mutate", "Start a dead job again"),
    Route("POST", "/v1/dlq/{job_id}/dismiss", "admin", "admin.mutate", "Take a dead job off"),
    Route(
        "POST",
        "/v1/queues/{queue}/requeue",
        "admin",
        "admin.mutate",
        "Send a fresh message for each job that waits, a page at a time",
    ),
    Route(
        "POST",
        "/v1/queues/{queue}/restart-failed",
        "admin",
        "admin.mutate",
        "Start each job that failed or is dead again, a page at a time",
    ),
    Route("GET", "/v1/conditions", "admin", "admin.read", "List conditions that jobs wait for"),
    Route(
        "PUT",
        "/v1/conditions/{condition}",
        "admin",
        "admin.mutate",
        "Declare an application up or down",
    ),
    Route("GET", "/v1/agents", "admin", "admin.read", "List agents"),
    Route(
        "POST",
        "/v1/agents/{agent}/drain",
        "admin",
        "admin.mutate",
        "Have an agent hand its jobs back and leave",
    ),
    Route("GET", "/v1/queues", "admin", "admin.read", "List queues with the lengths of lanes"),
    Route("GET", "/v1/queues/{queue}", "admin", "admin.read", "Read a queue"),
    Route(
        "GET", "/v1/queues/{queue}/settings", "admin", "admin.read", "Read the settings of a queue"
    ),
    Route(
        "PUT", "/v1/queues/{queue}/settings", "admin", "admin.mutate", "Set the settings of a queue"
    ),
    Route("GET", "/v1/health", "admin", None, "Say that the API is up"),
    Route("GET", "/v1/login", "admin", None, "Say where to log in, and as which client"),
)

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
