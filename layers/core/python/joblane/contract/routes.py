"""All routes of the API: gateway, functions, OpenAPI document and tests are made from this table.

The stacks make API Gateway's routes from it, and `http.application.Application.route` binds a
handler only to a route of this table, behind the route's scope.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from joblane.contract.admin_routes import ADMIN_ROUTES
from joblane.contract.route import Route
from joblane.contract.submission_routes import SUBMISSION_ROUTES

ROUTES: Final = SUBMISSION_ROUTES + ADMIN_ROUTES

BY_KEY: Final[Mapping[str, Route]] = MappingProxyType({route.key: route for route in ROUTES})
