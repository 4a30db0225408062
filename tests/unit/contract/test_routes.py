"""The route table: each route is bound once, by the function that it names, and no other is."""

import re
import time
from collections import Counter
from http import HTTPStatus
from typing import Any, get_args

import pytest

from functions.admin import handler as admin
from functions.status import handler as status
from functions.submission import handler as submission
from joblane.contract.access import ALL_ROLES, PLATFORM_SCOPES, ROLES, SCOPES, AnyRole
from joblane.contract.route import FunctionName, Route
from joblane.contract.routes import BY_KEY, ROUTES
from joblane.http.application import Application
from scripts.benches.imports import FUNCTIONS
from tests.support.aws import Cloud, configure
from tests.support.requests import Api


def application(function: FunctionName, aws: Cloud) -> Application:
    module: Any = {"admin": admin, "status": status, "submission": submission}[function]
    built: Application = module.build(configure(module.Settings), aws.clients, time.time)
    return built


@pytest.mark.parametrize("function", get_args(FunctionName))
def test_a_function_binds_its_routes_and_no_others(aws: Cloud, function: FunctionName):
    app = application(function, aws)
    own = [route for route in ROUTES if route.function == function]
    for route in own:
        app.parts.load(route.key)
        assert route in app.bound, "loaded with another part than its own"
    assert Counter(own) == Counter(app.bound)


@pytest.mark.parametrize("function", get_args(FunctionName))
def test_a_start_is_measured_with_each_part_of_a_function(aws: Cloud, function: FunctionName):
    """`tests/unit/aws/test_cold_start.py` has a bound for each."""
    app = application(function, aws)
    named = [name.partition(" ")[2] for name in FUNCTIONS if name.startswith(f"{function} ")]
    counts = []
    for route_key in named:
        before = len(app.bound)
        app.parts.load(route_key)
        counts.append(len(app.bound) - before)
    assert 0 not in counts, "one part twice"
    assert len([route for route in ROUTES if route.function == function]) == sum(counts)


def test_a_handler_of_an_unknown_route_is_refused(aws: Cloud):
    with pytest.raises(KeyError, match="GET /v1/secrets"):
        application("admin", aws).route("GET /v1/secrets")


def test_no_route_is_there_twice_and_each_is_well_formed():
    assert dict.fromkeys(BY_KEY, 1) == Counter(route.key for route in ROUTES)
    for route in ROUTES:
        assert re.fullmatch(r"/v1(/([a-z-]+(\.json)?|\{[a-z_]+\+?\}))+", route.path), route
        assert re.fullmatch(r"[A-Z][^.]+", route.summary), route


def test_each_role_has_the_scopes_of_the_one_before_and_its_own():
    assert ["reader", "developer", "operator", "admin"] == list(ROLES)
    reader, developer, operator, admin = ROLES.values()
    assert reader < developer < operator
    assert operator == admin
    assert frozenset(SCOPES) - PLATFORM_SCOPES == admin


def test_no_role_of_a_tenant_has_a_scope_of_the_role_platform():
    assert all(PLATFORM_SCOPES.isdisjoint(held) for held in ROLES.values())
    assert ALL_ROLES["platform"] == PLATFORM_SCOPES


def test_each_scope_is_needed_by_a_route():
    assert set(SCOPES) == {scope for route in ROUTES for scope in route.scopes}


def filled(route: Route) -> str:
    """The path with something in the place of each parameter."""
    return re.sub(r"\{[a-z_]+\}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", route.path)


@pytest.mark.parametrize("role", ALL_ROLES)
def test_a_person_is_let_in_by_role_whatever_the_token_carries(aws: Cloud, role: AnyRole):
    group = "platform" if role == "platform" else f"acme:{role}"
    claims = {"sub": "u-1", "username": "ada", "cognito:groups": f"[{group}]"}
    for function in get_args(FunctionName):
        api = Api(application(function, aws), "client-people", claims)
        for route in ROUTES:
            if route.function == function:
                status = api.raw(route.method, filled(route))["statusCode"]
                allowed = not route.scopes or not ALL_ROLES[role].isdisjoint(route.scopes)
                assert allowed == (status != HTTPStatus.FORBIDDEN), (route.key, status)


def test_a_bearer_of_no_tenant_learns_that_and_nothing_else(aws: Cloud):
    for function in get_args(FunctionName):
        api = Api(application(function, aws), "client-stranger")
        for route in ROUTES:
            if route.function == function and route.scopes:
                status, body = api(route.method, filled(route))
                assert (403, "the token's client belongs to no tenant") == (status, body["detail"])
