"""All routes of the API: gateway, functions, OpenAPI document and tests are made from these tables.

The stacks make API Gateway's routes from them, and `http.application.Application.route` binds a
handler only to a route of a table that its function has loaded, behind the route's scopes. A
function loads the tables one by one, since the models of all would be a part of its cold start
(decision 1830).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from joblane.contract.route import USUAL, Rate, Route
from joblane.contract.route_tables.agents import AGENT_ROUTES
from joblane.contract.route_tables.bulk import BULK_ROUTES
from joblane.contract.route_tables.conditions import CONDITION_ROUTES
from joblane.contract.route_tables.dead_letters import DEAD_LETTER_ROUTES
from joblane.contract.route_tables.deployment import DEPLOYMENT_ROUTES
from joblane.contract.route_tables.edits import EDIT_ROUTES
from joblane.contract.route_tables.groups import GROUP_ROUTES
from joblane.contract.route_tables.job_trail import JOB_TRAIL_ROUTES
from joblane.contract.route_tables.jobs import JOB_ROUTES
from joblane.contract.route_tables.keys import KEY_ROUTES
from joblane.contract.route_tables.logs import LOG_ROUTES
from joblane.contract.route_tables.operations import OPERATION_ROUTES
from joblane.contract.route_tables.outputs import OUTPUT_ROUTES
from joblane.contract.route_tables.queues import QUEUE_ROUTES
from joblane.contract.route_tables.resubmissions import RESUBMISSION_ROUTES
from joblane.contract.route_tables.schedules import SCHEDULE_ROUTES
from joblane.contract.route_tables.selected_jobs import SELECTED_JOBS_ROUTES
from joblane.contract.route_tables.status import STATUS_ROUTES
from joblane.contract.route_tables.submissions import SUBMISSION_ROUTES
from joblane.contract.route_tables.trail import TRAIL_ROUTES
from joblane.contract.route_tables.types import TYPE_ROUTES
from joblane.contract.route_tables.uploads import UPLOAD_ROUTES
from joblane.contract.route_tables.why import WHY_ROUTES

ROUTES: Final = (
    *SUBMISSION_ROUTES,
    *JOB_ROUTES,
    *SELECTED_JOBS_ROUTES,
    *RESUBMISSION_ROUTES,
    *LOG_ROUTES,
    *OPERATION_ROUTES,
    *EDIT_ROUTES,
    *JOB_TRAIL_ROUTES,
    *GROUP_ROUTES,
    *SCHEDULE_ROUTES,
    *TRAIL_ROUTES,
    *DEAD_LETTER_ROUTES,
    *BULK_ROUTES,
    *AGENT_ROUTES,
    *CONDITION_ROUTES,
    *KEY_ROUTES,
    *QUEUE_ROUTES,
    *TYPE_ROUTES,
    *UPLOAD_ROUTES,
    *DEPLOYMENT_ROUTES,
    *STATUS_ROUTES,
    *WHY_ROUTES,
    *OUTPUT_ROUTES,
)

RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    {route.key: route.rate for route in ROUTES if route.rate != USUAL}
)
"""Rates of those that have another one than `USUAL`, by their keys."""

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
