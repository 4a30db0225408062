"""The API for IAM roles: the routes of the other one, each behind a signature."""

import json
from typing import Any

import pytest

from joblane.config.access import format_assumed
from joblane.contract.principal import Machine
from joblane.contract.routes import ROUTES
from tests.infra.conftest import ROLE_ARN
from tests.infra.synthesis import Deployment
from tests.infra.test_access import access

STAGE, ROUTE = "AWS::ApiGatewayV2::Stage", "AWS::ApiGatewayV2::Route"
SESSIONS = "arn:aws:sts::111122223333:assumed-role/builds"


def apis(deployment: Deployment) -> tuple[str, str]:
    """Logical ids of the API for tokens and of the one for IAM roles."""
    found = deployment.resources("AWS::ApiGatewayV2::Api")
    (iam,) = (name for name, each in found.items() if each["Properties"]["Name"].endswith("-iam"))
    (tokens,) = found.keys() - {iam}
    return tokens, iam


def of(deployment: Deployment, kind: str, api: str) -> list[dict[str, Any]]:
    return [each for each in deployment.properties(kind) if each["ApiId"] == {"Ref": api}]


def test_every_route_needs_a_signature(varied: Deployment) -> None:
    """Those that need no token, too."""
    _, iam = apis(varied)
    routes = {each["RouteKey"]: each["AuthorizationType"] for each in of(varied, ROUTE, iam)}
    assert {route.key: "AWS_IAM" for route in ROUTES} == routes


def test_both_apis_reach_the_same_functions_at_the_same_rates(varied: Deployment) -> None:
    integrations = varied.resources("AWS::ApiGatewayV2::Integration")

    def behind(api: str) -> dict[str, str]:
        found = {}
        for route in of(varied, ROUTE, api):
            integration = integrations[route["Target"]["Fn::Join"][1][1]["Ref"]]["Properties"]
            found[route["RouteKey"]] = integration["IntegrationUri"]["Fn::GetAtt"][0]
        return found

    def rates(api: str) -> tuple[Any, dict[str, Any]]:
        (stage,) = of(varied, STAGE, api)
        own = {key: each for key, each in stage["RouteSettings"].items() if "/console" not in key}
        return stage["DefaultRouteSettings"], own

    tokens, iam = apis(varied)
    known = behind(tokens)
    assert behind(iam) == {route.key: known[route.key] for route in ROUTES}
    assert rates(tokens) == rates(iam)


def test_the_api_may_call_its_functions_by_a_permission_each(varied: Deployment) -> None:
    """A function's policy has 20 KB, of which the other API needs half."""
    tokens, iam = apis(varied)
    permissions = varied.properties("AWS::Lambda::Permission", "api")
    of_iam = [each for each in permissions if json.dumps({"Ref": iam}) in json.dumps(each)]
    assert 3 == len(of_iam) == len({str(each["FunctionName"]) for each in of_iam})
    for permission in of_iam:
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert ["/*/*/*"] == [
            part for part in permission["SourceArn"]["Fn::Join"][1] if str(part).endswith("*")
        ]
        assert json.dumps({"Ref": tokens}) not in json.dumps(permission)


def test_its_log_names_the_callers(varied: Deployment) -> None:
    _, iam = apis(varied)
    (stage,) = of(varied, STAGE, iam)
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert "$context.identity.userArn" == logged["subject"]
    group = stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0]
    groups = varied.resources("AWS::Logs::LogGroup")
    assert "/aws/vendedlogs/joblane/iam-api" == groups[group]["Properties"]["LogGroupName"]


def test_its_errors_are_an_alarm_of_its_own(varied: Deployment) -> None:
    parameters = varied.templates["joblane-observability"]["Parameters"]
    watched = {
        alarm["AlarmName"]: parameters[alarm["Dimensions"][0]["Value"]["Ref"]]["Default"]
        for alarm in varied.properties("AWS::CloudWatch::Alarm")
        if alarm["AlarmName"].endswith("api-errors")
    }
    assert {
        "joblane-api-errors": "/joblane/api-id",
        "joblane-iam-api-errors": "/joblane/iam-api-id",
    } == watched


@pytest.mark.parametrize("function", ["submission", "admin", "status"])
def test_functions_know_the_roles(varied: Deployment, laptop: Deployment, function: str) -> None:
    assert {SESSIONS: Machine("other", "developer", "builds")} == access(varied, function).iam
    (known,) = access(laptop, function).iam.values()
    assert Machine("demo", "developer", "joblane-ci") == known


@pytest.mark.parametrize(
    ("arn", "sessions"),
    [
        (ROLE_ARN, SESSIONS),
        ("arn:aws-cn:iam::111122223333:role/a", "arn:aws-cn:sts::111122223333:assumed-role/a"),
        (
            "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/eu-west-1/SSO_a_1",
            "arn:aws:sts::111122223333:assumed-role/SSO_a_1",
        ),
    ],
)
def test_sessions_are_named_without_the_path_of_their_role(arn: str, sessions: str) -> None:
    assert sessions == format_assumed(arn)


def test_without_roles_there_is_no_second_api(production: Deployment) -> None:
    assert 1 == len(production.resources("AWS::ApiGatewayV2::Api"))
    assert not {"IamApiUrl", "IamApiArn"} & set(production.templates["joblane-api"]["Outputs"])
