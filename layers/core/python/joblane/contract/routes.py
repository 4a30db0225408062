"""All routes of the API: gateway, functions, OpenAPI document and tests are made from these tables.

The stacks make API Gateway's routes from them, and `http.application.Application.route` binds a
handler only to a route of the table that its function has, behind the route's scopes. Each function
loads its own table, since the models of the others would be a part of its cold start.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from joblane.contract.job_routes import JOB_ROUTES
from joblane.contract.operator_routes import OPERATOR_ROUTES
from joblane.contract.route import USUAL, Rate, Route
from joblane.contract.status_routes import STATUS_ROUTES

ROUTES: Final = (*JOB_ROUTES, *OPERATOR_ROUTES, *STATUS_ROUTES)

RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    {route.key: route.rate for route in ROUTES if route.rate != USUAL}
)
"""Rates of those that have another one than `USUAL`, by their keys."""

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
