"""Routes of the deployment itself, which anyone may read."""

from typing import Final

from joblane.contract.deployment_answers import Contract, Health, Login
from joblane.contract.route import LARGE, PUBLIC, TOGETHER, Route

DEPLOYMENT_ROUTES: Final = (
    Route(
        "getOpenapi",
        "GET",
        "/v1/openapi.json",
        (),
        "Read the OpenAPI document",
        Contract,
        rate=LARGE,
    ),
    Route("getHealth", "GET", "/v1/health", (), "Check that the API is up", Health, rate=PUBLIC),
    Route(
        "getLogin",
        "GET",
        "/v1/login",
        (),
        "Show where to log in, and as which client",
        Login,
        rate=TOGETHER,
    ),
)
