"""The route table: each route is bound once, by the function that it names, and no other is."""

import re
import time
from collections import Counter
from itertools import pairwise
from typing import get_args

import pytest

from functions.admin import handler as admin
from functions.submission import handler as submission
from joblane.access import ROLES, SCOPES
from joblane.routes import BY_KEY, ROUTES, FunctionName
from joblane.web import Application
from tests.support.aws import FUNCTION_ENVIRONMENT, Cloud


def application(function: FunctionName, aws: Cloud) -> Application:
    if function == "admin":
        settings = admin.Settings.model_validate(FUNCTION_ENVIRONMENT)
        return admin.build(settings, aws.clients, time.time)
    return submission.build(
        submission.Settings.model_validate(FUNCTION_ENVIRONMENT), aws.clients, time.time
    )


@pytest.mark.parametrize("function", get_args(FunctionName))
def test_a_function_binds_its_routes_and_no_others(aws: Cloud, function: FunctionName):
    app = application(function, aws)
    assert Counter(route for route in ROUTES if route.function == function) == Counter(app.bound)


def test_a_handler_of_an_unknown_route_is_refused(aws: Cloud):
    with pytest.raises(KeyError, match="GET /v1/secrets"):
        application("admin", aws).route("GET /v1/secrets")


def test_no_route_is_there_twice_and_each_is_well_formed():
    assert dict.fromkeys(BY_KEY, 1) == Counter(route.key for route in ROUTES)
    for route in ROUTES:
        assert re.fullmatch(r"/v1(/([a-z-]+|\{[a-z_]+\}))+", route.path), route
        assert re.fullmatch(r"[A-Z][^.]+", route.summary), route


def test_each_role_holds_the_scopes_of_the_one_before_and_its_own():
    held = list(ROLES.values())
    assert ["reader", "developer", "operator", "admin"] == list(ROLES)
    assert all(less < more for less, more in pairwise(held))
    assert frozenset(SCOPES) == held[-1]
