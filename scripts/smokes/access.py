"""The role table: each role against each route, and nobody against all of them."""

import re
from collections.abc import Callable, Sequence

import httpx

from joblane.contract.access import ALL_ROLES, AnyRole
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from scripts.smokes.runner import Failure
from scripts.smokes.site import Site

ABSENT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""Id of a job that is not there: what is allowed answers 404 or 400, and changes nothing."""


Call = Callable[[str, str], httpx.Response]
"""Sends a request to the API: a method and a path."""


def ask(call: Call, route: Route, job_id: str = ABSENT) -> httpx.Response:
    """Ask for a route; a queue and whatever else it names is one that is not there."""
    path = route.path.replace("{job_id}", job_id)
    return call(route.method, re.sub(r"\{[a-z_]+\+?\}", "absent", path))


def list_allowed(role: AnyRole) -> set[str]:
    """Keys of the routes that a role may use."""
    return {r.key for r in ROUTES if not r.scopes or ALL_ROLES[role] & set(r.scopes)}


def table(site: Site, routes: Sequence[Route] = ROUTES) -> str:
    """Raise Failure for a route that a role gets without being allowed, or does not get."""
    wrong: list[str] = []
    for role in ALL_ROLES:
        may = list_allowed(role)
        with site.http(role) as http:
            for route in routes:
                status = ask(http.request, route).status_code
                if status >= 500 or status == 401 or (status == 403) == (route.key in may):
                    wrong.append(f"{role}: {route.key} answers {status}")
    with site.http(None) as http:
        for route in routes:
            status = ask(http.request, route).status_code
            if (status == 401) != bool(route.scopes):
                wrong.append(f"nobody: {route.key} answers {status}")
    if wrong:
        raise Failure("; ".join(wrong))
    return f"{len(ALL_ROLES)} roles and nobody on {len(routes)} routes"
