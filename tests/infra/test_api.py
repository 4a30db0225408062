"""The API stack: routes, scopes, the authorizer, the stage, settings of the functions."""

import json
from typing import Any

from infra.console_files import read_console
from joblane.contract.access import SCOPES
from joblane.contract.public_routes import PUBLIC_ROUTES
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES
from joblane.contract.status import DeclaredFleet
from tests.infra.synthesis import ROOT, Deployment

CONSOLE = ("GET /console", "GET /console/{path+}")
STRANGERS = 20
"""Requests a second that each route without a token takes, at most (docs/decisions/2123)."""


def admitted(route: Route) -> list[str]:
    """Scopes of which a token needs one at the gateway; changes are refused by the function."""
    return [f"joblane/{scope}" for scope in (SCOPES if route.changes else route.scopes)]


def test_every_route_but_two_asks_for_a_token_with_its_scope(production: Deployment) -> None:
    routes = production.properties("AWS::ApiGatewayV2::Route")
    (authorizer,) = production.resources("AWS::ApiGatewayV2::Authorizer")

    open_to_all = {route.key for route in ROUTES if not route.scopes}
    assert {"GET /v1/health", "GET /v1/login", "GET /v1/openapi.json"} == open_to_all
    assert {
        route.key: ("JWT", admitted(route), {"Ref": authorizer})
        if route.scopes
        else ("NONE", None, None)
        for route in ROUTES
    } | dict.fromkeys(CONSOLE, ("NONE", None, None)) == {
        route["RouteKey"]: (
            route["AuthorizationType"],
            route.get("AuthorizationScopes"),
            route.get("AuthorizerId"),
        )
        for route in routes
    }


def test_each_route_reaches_its_function(production: Deployment) -> None:
    functions = production.resources("AWS::Lambda::Function")
    integrations = production.resources("AWS::ApiGatewayV2::Integration")

    def behind(route: dict[str, Any]) -> str:
        integration = integrations[route["Target"]["Fn::Join"][1][1]["Ref"]]["Properties"]
        assert integration["PayloadFormatVersion"] == "2.0"
        function = functions[integration["IntegrationUri"]["Fn::GetAtt"][0]]
        return str(function["Properties"]["FunctionName"])

    assert {
        route["RouteKey"]: behind(route)
        for route in production.properties("AWS::ApiGatewayV2::Route")
    } == {route.key: f"joblane-{route.function}" for route in ROUTES} | dict.fromkeys(
        CONSOLE, "joblane-console"
    )


EXCEPTIONS = {
    "POST /v1/jobs/batch": (10, 20),
    "POST /v1/queues/{queue}/requeue": (10, 20),
    "POST /v1/queues/{queue}/restart-failed": (10, 20),
    "DELETE /v1/keys/{scope}/{key}/queued": (10, 20),
    "POST /v1/groups/{group}/cancel": (10, 20),
    "POST /v1/groups/{group}/retry": (10, 20),
    "POST /v1/schedules/{schedule}/backfill": (10, 20),
    "POST /v1/jobs/cancel": (10, 20),
    "POST /v1/dlq/dismiss": (10, 20),
    "POST /v1/dlq/replay": (10, 20),
    "POST /v1/jobs/delete": (10, 20),
    "POST /v1/jobs/resubmit": (10, 20),
    "POST /v1/jobs/retry": (10, 20),
    "GET /v1/fleets": (10, 20),
    "GET /v1/queues": (10, 20),
    "GET /v1/jobs/{job_id}/logs": (2000, 4000),
    "GET /v1/openapi.json": (1, 20),
    "GET /v1/health": (10, 20),
    "GET /v1/login": (20, 400),
    "GET /console": (10, 20),
    "GET /console/{path+}": (20, 400),
}
"""Routes with limits of their own: the stage refers to these alone, so any other can go."""


def test_the_stage_is_throttled_and_logged_and_no_origin_is_let_in(production: Deployment) -> None:
    stage = production.one("AWS::ApiGatewayV2::Stage")
    logged = json.loads(stage["AccessLogSettings"]["Format"])

    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert (stage["DefaultRouteSettings"]) == {
        "ThrottlingBurstLimit": 400,
        "ThrottlingRateLimit": 200,
    }
    assert {
        key: {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}
        for key, (rate, burst) in EXCEPTIONS.items()
    } == stage["RouteSettings"]
    assert {"request_id", "status", "subject"} <= set(logged)
    assert "joblane" == logged["deployment"]
    assert "CorsConfiguration" not in production.one("AWS::ApiGatewayV2::Api")


def test_every_route_has_the_limits_that_its_contract_promises(production: Deployment) -> None:
    stage = production.one("AWS::ApiGatewayV2::Stage")
    default, own = stage["DefaultRouteSettings"], stage["RouteSettings"]
    for route in ROUTES:
        limits = own.get(route.key, default)
        assert (route.key, route.rate.per_second, route.rate.burst) == (
            route.key,
            limits["ThrottlingRateLimit"],
            limits["ThrottlingBurstLimit"],
        )


def test_routes_without_a_token_take_few_requests(production: Deployment) -> None:
    """Whatever the table says: by the templates, of every route that anybody may call."""
    stage = production.one("AWS::ApiGatewayV2::Stage")
    public = {
        route["RouteKey"]
        for route in production.properties("AWS::ApiGatewayV2::Route")
        if route["AuthorizationType"] == "NONE"
    }
    assert set(PUBLIC_ROUTES) == public
    for key in public:
        limits = stage["RouteSettings"].get(key, stage["DefaultRouteSettings"])
        assert 0 < limits["ThrottlingRateLimit"] <= STRANGERS, key


def test_the_files_of_the_console_may_all_be_asked_for_at_once(production: Deployment) -> None:
    """By several browsers: an answer 429 to one of them is a page that does not start."""
    settings = production.one("AWS::ApiGatewayV2::Stage")["RouteSettings"]
    files = len(read_console(ROOT / "console"))
    assert settings["GET /console/{path+}"]["ThrottlingBurstLimit"] >= 5 * files > 0


def test_the_stage_knows_the_routes_alone_that_have_limits_of_their_own(
    production: Deployment,
) -> None:
    """A stage that refers to a route which a deployment removes cannot be updated."""
    (stage,) = production.resources("AWS::ApiGatewayV2::Stage").values()
    routes = production.resources("AWS::ApiGatewayV2::Route")
    known = set(stage["DependsOn"]) & set(routes)
    assert {routes[each]["Properties"]["RouteKey"] for each in known} == set(EXCEPTIONS)


def test_functions_run_as_configured(production: Deployment, laptop: Deployment) -> None:
    for deployment, runtime, architecture in (
        (production, "python3.13", "arm64"),
        (laptop, "python3.11", "x86_64"),
    ):
        functions = {
            function["FunctionName"]: function
            for function in deployment.properties("AWS::Lambda::Function", "api")
        }
        del functions["joblane-console"]  # tests/infra/test_console.py
        assert {"joblane-submission", "joblane-admin", "joblane-status"} == set(functions)
        for function in functions.values():
            assert (runtime, [architecture], "handler.main", 29, 512, 1) == (
                function["Runtime"],
                function["Architectures"],
                function["Handler"],
                function["Timeout"],
                function["MemorySize"],
                len(function["Layers"]),
            )
        for layer in deployment.properties("AWS::Lambda::LayerVersion"):
            assert ([runtime], [architecture]) == (
                layer["CompatibleRuntimes"],
                layer["CompatibleArchitectures"],
            )


def test_functions_log_to_groups_of_their_own_with_retention(production: Deployment) -> None:
    groups = production.resources("AWS::Logs::LogGroup")
    for function in production.properties("AWS::Lambda::Function"):
        # They may not even log: decisions 0302 and 1501.
        if function["FunctionName"].endswith(("-tester", "-console")):
            assert "LoggingConfig" not in function
            continue
        group = groups[function["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
        assert (f"/aws/lambda/{function['FunctionName']}", 90) == (
            group["LogGroupName"],
            group["RetentionInDays"],
        )


def test_functions_are_told_what_they_serve(laptop: Deployment) -> None:
    environments = {
        function["FunctionName"]: function["Environment"]["Variables"]
        for function in laptop.properties("AWS::Lambda::Function", "api")
        if function["FunctionName"] != "joblane-console"
    }
    every = {
        "JOBLANE_AGENTS_TABLE",
        "JOBLANE_COUNTERS_TABLE",
        "JOBLANE_DEPLOYMENT",
        "JOBLANE_IDS",
        "JOBLANE_QUEUE_URL_PREFIX",
        "POWERTOOLS_SERVICE_NAME",
        "PYDANTIC_DISABLE_PLUGINS",
    }
    shared = every | {"JOBLANE_JOBS_TABLE", "JOBLANE_SETTINGS_TABLE", "JOBLANE_AUDIT_TABLE"}

    assert {
        "joblane-status": every
        | {
            "JOBLANE_BUCKET",
            "JOBLANE_CONDITIONS_TABLE",
            "JOBLANE_JOBS_TABLE",
            "JOBLANE_KEYS_TABLE",
            "JOBLANE_SETTINGS_TABLE",
        },
        "joblane-submission": shared
        | {
            "JOBLANE_BUCKET",
            "JOBLANE_KEYS_TABLE",
            "JOBLANE_OUTPUT_TABLE",
            "JOBLANE_TYPES_TABLE",
        },
        "joblane-admin": shared
        | {
            "JOBLANE_BUCKET",
            "JOBLANE_CONDITIONS_TABLE",
            "JOBLANE_KEYS_TABLE",
            "JOBLANE_LOGIN",
            "JOBLANE_TYPES_TABLE",
        },
    } == {name: set(variables) for name, variables in environments.items()}
    submission, admin = laptop.declared("submission"), laptop.declared("admin")
    both = {"JOBLANE_ACCESS", "JOBLANE_CONCURRENCY", "JOBLANE_QUEUES", "JOBLANE_RETENTION"}
    both |= {"JOBLANE_FLEET_QUEUES", "JOBLANE_MAXIMA", "JOBLANE_RETIRED"}
    both |= {"JOBLANE_DEADLINES", "JOBLANE_WITHOUT_HOST_NETWORK"}
    own = {"DEFAULT_QUEUE", "DEFAULT_QUEUES", "FILTERS", "LIMITS", "NOTIFY", "TENANTS"}
    assert both | {f"JOBLANE_{name}" for name in own} == set(submission)
    operators = {"ARCHITECTURES", "LIMITS", "POLICIES", "THREADS"}
    assert both | {f"JOBLANE_{name}" for name in operators} == set(admin)
    assert {"default": [], "bulk": []} == submission["JOBLANE_QUEUES"] == admin["JOBLANE_QUEUES"]
    read = {
        "ACCESS",
        "FLEETS",
        "LIMITS",
        "LINKS",
        "MAXIMA",
        "POLICIES",
        "PRICES",
        "QUEUES",
        "RETIRED",
        "THREADS",
        "WITHOUT_HOST_NETWORK",
    }
    status = laptop.declared("status")
    assert {f"JOBLANE_{name}" for name in read} == set(status)
    assert [] == status["JOBLANE_LINKS"]  # test_scale.py has some
    assert laptop.config.prices == status["JOBLANE_PRICES"] != {}
    assert [*laptop.config.fleets] == [fleet["name"] for fleet in status["JOBLANE_FLEETS"]]
    for fleet in status["JOBLANE_FLEETS"]:
        assert fleet == DeclaredFleet.model_validate(fleet).model_dump(mode="json")


def test_the_outputs_are_those_that_scripts_read(laptop: Deployment) -> None:
    assert {
        "ApiUrl",
        "ApiId",
        "UserPoolId",
        "TokenUrl",
        "LoginClientId",
        "ClientIdDemo",
        "ClientIdDemoMachineAdmin",
        "ClientIdDemoMachineDeveloper",
        "ClientIdDemoMachineOperator",
        "ClientIdDemoMachineReader",
        "ClientIdLimited",
        "ClientIdOther",
        "ClientIdOtherMachineAdmin",
        "ClientIdSmall",
        "ClientIdSmallMachineAdmin",
        "ClientIdPlatform",
        "IamApiUrl",
        "IamApiArn",
    } == set(laptop.templates["joblane-api"]["Outputs"])
