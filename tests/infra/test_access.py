"""Authentication: the user pool and its clients, another issuer, a domain with mutual TLS."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import Json

from joblane.aws.environment import Environment
from joblane.config.tenant import Tenant
from joblane.contract.access import ALL_ROLES, LOGIN_CALLBACKS, ROLES, SCOPES, AnyRole, Role
from joblane.contract.principal import (
    Access,
    AnyAccess,
    IssuerAccess,
    Machine,
    NotAdmitted,
    PoolAccess,
)
from joblane.contract.routes import ROUTES
from tests.infra.conftest import CERTIFICATE, TRUSTSTORE
from tests.infra.synthesis import Deployment
from tests.infra.templates import process_environment


def clients(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """The clients of the user pool by name."""
    return {
        client["ClientName"]: client
        for client in deployment.properties("AWS::Cognito::UserPoolClient")
    }


class Settings(Environment):
    """What a function of the API reads of its callers."""

    access: Json[AnyAccess]


def access(
    deployment: Deployment, function: str, environment: Mapping[str, str] | None = None
) -> Access:
    """The callers that a function knows; the name of a client stands for its id."""
    variables = environment or process_environment(deployment, function)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        return Settings.read(str(deployment.bundle(function) / "handler.py")).access


EVERY = [f"joblane/{scope}" for scope in SCOPES]


def scopes(role: AnyRole) -> list[str]:
    return [f"joblane/{scope}" for scope in SCOPES if scope in ALL_ROLES[role]]


def test_tokens_come_from_our_pool_for_our_clients_people_among_them(two_tenants: Deployment):
    authorizer = two_tenants.one("AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"]
    known = two_tenants.resources("AWS::Cognito::UserPoolClient")

    assert len(ALL_ROLES) + 1 == len(known)
    assert sorted(known) == sorted(audience["Ref"] for audience in authorizer["Audience"])
    assert authorizer["Issuer"]["Fn::Join"][1][0] == "https://cognito-idp."
    pool = authorizer["Issuer"]["Fn::Join"][1][-1]["Fn::ImportValue"]
    assert pool.startswith("joblane-identity:ExportsOutputRefUsers")


@pytest.mark.parametrize("role", ROLES)
def test_a_machine_gets_the_scopes_of_its_role_and_no_other_flow(
    two_tenants: Deployment, role: Role
):
    client = clients(two_tenants)[f"joblane-team-2-{role}"]
    assert client["GenerateSecret"] is True
    assert client["AllowedOAuthFlows"] == ["client_credentials"]
    assert client["AccessTokenValidity"] == 60
    assert scopes(role) == client["AllowedOAuthScopes"]


def test_machines_of_the_role_platform_get_its_scopes_and_no_others(two_tenants: Deployment):
    client = clients(two_tenants)["joblane-platform-ops"]
    assert ["joblane/platform.read", "joblane/platform.mutate"] == client["AllowedOAuthScopes"]


def test_a_tenant_has_one_machine_unless_it_says_otherwise(laptop: Deployment):
    for tenant in ("demo", "other"):
        assert scopes("developer") == clients(laptop)[f"joblane-{tenant}"]["AllowedOAuthScopes"]
    assert {"default": "developer"} == Tenant().machines


def test_people_log_in_by_code_without_a_secret_and_come_back_to_their_own_machine(
    two_tenants: Deployment,
):
    client = clients(two_tenants)["joblane-people"]
    assert client["GenerateSecret"] is False
    assert client["AllowedOAuthFlows"] == ["code"]
    console = "https://jobs.acme.example/console"
    assert client["CallbackURLs"] == [*LOGIN_CALLBACKS, console]
    assert client["LogoutURLs"] == [console]
    assert client["AllowedOAuthScopes"] == ["openid", *EVERY]
    assert client["SupportedIdentityProviders"] == ["COGNITO"]
    assert (60, 7 * 24 * 60) == (client["AccessTokenValidity"], client["RefreshTokenValidity"])
    assert client["EnableTokenRevocation"] is True
    # No way past the login page, where the second factor is asked for.
    assert client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]


def test_people_are_invited_and_have_a_second_factor(production: Deployment):
    pool = production.one("AWS::Cognito::UserPool")
    assert pool["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True
    assert ("ON", ["SOFTWARE_TOKEN_MFA"]) == (pool["MfaConfiguration"], pool["EnabledMfas"])
    assert pool["AliasAttributes"] == ["email"]
    assert "UsernameAttributes" not in pool


def test_there_is_a_group_for_each_role_of_each_tenant(two_tenants: Deployment):
    groups = {f"{tenant}:{role}" for tenant in ("team-2", "acme") for role in ROLES}
    assert groups | {"platform"} == {
        group["GroupName"] for group in two_tenants.properties("AWS::Cognito::UserPoolGroup")
    }


def test_the_resource_server_declares_every_scope(production: Deployment):
    server = production.one("AWS::Cognito::UserPoolResourceServer")
    assert server["Identifier"] == "joblane"
    assert list(SCOPES) == [scope["ScopeName"] for scope in server["Scopes"]]


@pytest.mark.parametrize("function", ["submission", "admin", "status"])
def test_functions_know_the_bearers_of_tokens(two_tenants: Deployment, function: str):
    known = access(two_tenants, function)
    assert isinstance(known, PoolAccess)
    assert {"team-2", "acme"} == known.tenants
    assert known.people == "joblane-people"
    assert {
        **{f"joblane-team-2-{role}": Machine("team-2", role, role) for role in ROLES},
        "joblane-platform-ops": Machine("platform", "platform", "ops"),
    } == known.machines


def test_a_client_whose_id_is_not_there_yet_is_nobodys(two_tenants: Deployment):
    """Lambda replaces a function's code and environment one after the other."""
    older = process_environment(two_tenants, "admin")
    ids = [each for each in older["JOBLANE_IDS"].split() if "platform-ops" not in each]
    known = access(two_tenants, "admin", {**older, "JOBLANE_IDS": " ".join(ids)})
    assert isinstance(known, PoolAccess)
    others = {client: machine for client, machine in known.machines.items() if "<" not in client}
    assert {f"joblane-team-2-{role}": Machine("team-2", role, role) for role in ROLES} == others
    assert len(others) + 1 == len(known.machines)
    with pytest.raises(NotAdmitted):
        known.principal({"client_id": "joblane-platform-ops", "sub": "joblane-platform-ops"})


def test_where_to_log_in_is_known(two_tenants: Deployment, others: Deployment):
    login = json.loads(process_environment(two_tenants, "admin")["JOBLANE_LOGIN"])
    assert login["openid_configuration"].endswith("/.well-known/openid-configuration")
    assert login["client_id"] == "joblane-people"
    assert ["openid", *EVERY] == login["scopes"]
    assert {
        "openid_configuration": (
            "https://id.acme.example/realms/acme/.well-known/openid-configuration"
        ),
        "client_id": "joblane-cli",
        "scopes": ["openid", "offline_access"],
        "audience": "joblane-prod",
    } == json.loads(process_environment(others, "admin")["JOBLANE_LOGIN"])


def test_outputs_name_each_machine(two_tenants: Deployment):
    outputs = two_tenants.templates["joblane-api"]["Outputs"]
    named = {f"ClientIdTeamDash2Machine{role.capitalize()}" for role in ROLES}
    assert named | {"ClientIdPlatformMachineOps"} == {
        name for name in outputs if name.startswith("ClientId")
    }


def test_another_issuer_needs_no_cognito(others: Deployment, varied: Deployment):
    for deployment in (others, varied):
        assert "joblane-identity" not in deployment.templates
        assert "Cognito" not in json.dumps(deployment.templates)
        assert {
            "Issuer": "https://id.acme.example/realms/acme",
            "Audience": ["joblane-prod"],
        } == deployment.one("AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"]


def test_scopes_of_another_issuer_are_checked_at_the_door_where_it_gives_any(
    others: Deployment, varied: Deployment
):
    found = [
        {
            route["RouteKey"]: route.get("AuthorizationScopes")
            for route in deployment.properties("AWS::ApiGatewayV2::Route")
            if route["AuthorizationType"] == "JWT"
        }
        for deployment in (others, varied)
    ]
    guarded = {
        route.key: list(SCOPES) if route.changes else list(route.scopes)
        for route in ROUTES
        if route.scopes
    }
    assert [dict.fromkeys(guarded), guarded] == found
    known = [access(deployment, "admin") for deployment in (others, varied)]
    claims = [each.role_claim for each in known if isinstance(each, IssuerAccess)]
    assert ["joblane_role", None] == claims


def test_a_domain_asks_for_certificates_and_is_the_only_way_in(
    two_tenants: Deployment, production: Deployment
):
    domain = two_tenants.one("AWS::ApiGatewayV2::DomainName")
    assert {"TruststoreUri": TRUSTSTORE, "TruststoreVersion": "3"} == (
        domain["MutualTlsAuthentication"]
    )
    ((configuration),) = domain["DomainNameConfigurations"]
    assert ("TLS_1_2", CERTIFICATE) == (
        configuration["SecurityPolicy"],
        configuration["CertificateArn"],
    )
    assert two_tenants.one("AWS::ApiGatewayV2::Api")["DisableExecuteApiEndpoint"] is True
    mapping = two_tenants.one("AWS::ApiGatewayV2::ApiMapping")
    assert {"Ref": next(iter(two_tenants.resources("AWS::ApiGatewayV2::Api")))} == mapping["ApiId"]
    outputs = two_tenants.templates["joblane-api"]["Outputs"]
    assert outputs["ApiUrl"]["Value"] == "https://jobs.acme.example/"
    assert "DomainTarget" in outputs

    assert not production.resources("AWS::ApiGatewayV2::DomainName")
    assert "DisableExecuteApiEndpoint" not in production.one("AWS::ApiGatewayV2::Api")
