"""Routes of conditions."""

from typing import Final

from joblane.contract.conditions import AppView, ConditionPage, Declaration
from joblane.contract.query import PageQuery
from joblane.contract.route import Route

CONDITION_ROUTES: Final = (
    Route(
        "listConditions",
        "GET",
        "/v1/conditions",
        ("admin.read",),
        "List conditions that jobs wait for",
        ConditionPage,
        query=PageQuery,
    ),
    Route(
        "declareCondition",
        "PUT",
        "/v1/conditions/{condition}",
        ("admin.mutate", "platform.mutate"),
        "Declare an application up or down",
        AppView,
        action="declare",
        body=Declaration,
    ),
)
