"""OAuth clients of the user pool, or another issuer, and the settings of the authorizer.

The clients are in the API stack: they hold no data, and removing a tenant from joblane.toml removes
them without a cross-stack export that would block it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aws_cdk import CfnOutput, Duration, RemovalPolicy
from aws_cdk import aws_cognito as cognito

from infra.identity import IdentityStack
from infra.outputs import client_output
from infra.resources import JoblaneStack
from joblane.config import Config
from joblane.config.access import Issuer
from joblane.config.tenant import DEFAULT_MACHINE
from joblane.contract.access import (
    ALL_ROLES,
    API_AUDIENCE,
    LOGIN_CALLBACKS,
    PLATFORM_SCOPES,
    SCOPES,
    AnyRole,
    Scope,
)
from joblane.contract.route import Route
from joblane.deployment.names import PLATFORM

TOKEN_VALIDITY = Duration.hours(1)

LOGIN_VALIDITY = Duration.days(7)
"""How long a login lasts; refreshed tokens carry the current roles."""


PEOPLE = "people"
"""Name of the id of the client that people log in with."""


@dataclass(frozen=True)
class Gate:
    """Which tokens the authorizer accepts, and how functions read them."""

    issuer: str
    audience: Sequence[str]
    scope_prefix: str | None
    """Prefix of each scope in a token; None when tokens carry no scopes of Joblane."""
    access: str
    """JSON for the functions, a `joblane.contract.principal.AnyAccess` with names for `ids`."""
    ids: Mapping[str, str]
    """Ids of clients, which are CDK tokens, by names of constant length."""
    login: str
    """JSON of the response of `GET /v1/login`."""
    connect: str
    """Origins that the console sends its login requests to, separated by spaces."""

    def scopes(self, route: Route) -> list[str] | None:
        """Return the scopes of which the authorizer requires one for a route."""
        if self.scope_prefix is None or not route.scopes:
            return None
        scopes = SCOPES if route.changes else route.scopes
        return [f"{self.scope_prefix}{scope}" for scope in scopes]


def issuer_gate(config: Config, issuer: Issuer) -> Gate:
    """Accept the tokens of another issuer."""
    by_scopes = issuer.role_claim is None
    access = {
        "kind": "issuer",
        "tenants": sorted(config.tenants),
        "tenant_claim": issuer.tenant_claim,
        "role_claim": issuer.role_claim,
        "iam": config.iam,
    }
    # An issuer gives a refresh token for offline_access.
    asked = [scope for scope in SCOPES if by_scopes and scope not in PLATFORM_SCOPES]
    scopes = ["openid", "offline_access", *asked]
    return Gate(
        issuer=issuer.issuer,
        audience=issuer.audience,
        scope_prefix="" if by_scopes else None,
        access=json.dumps(access),
        ids={},
        login=_login(issuer.issuer, issuer.client_id, scopes, issuer.audience[0]),
        connect=" ".join(dict.fromkeys((_origin(issuer.issuer), *issuer.token_origins))),
    )


def pool_gate(stack: JoblaneStack, identity: IdentityStack, console: str) -> Gate:
    """Create the clients of the user pool in `stack`, each with an output; accept their tokens.

    `console` is the address of the console, where logins there end.
    """
    people = _people(stack, identity, console).user_pool_client_id
    CfnOutput(stack, "LoginClientId", value=people, description="Public client for people")
    machines: dict[str, tuple[str, AnyRole, str]] = {}
    ids = {PEOPLE: people}
    for tenant, machine, role in _list_declared(stack.config):
        client = _machine(stack, identity, (tenant, machine), role).user_pool_client_id
        name = _name(tenant, machine)
        ids[name] = client
        machines[f"<{name}>"] = tenant, role, machine
        of = "" if tenant == PLATFORM else f" of the tenant {tenant}"
        CfnOutput(
            stack,
            f"ClientId-{tenant}-{machine}",
            value=client,
            description=f"Machine {machine}{of}, role {role}",
        ).override_logical_id(client_output(tenant, machine))
    host = f"https://cognito-idp.{stack.region}.{stack.url_suffix}"
    issuer = f"{host}/{identity.pool.user_pool_id}"
    access = {
        "kind": "pool",
        "tenants": sorted(stack.config.tenants),
        "people": f"<{PEOPLE}>",
        "machines": machines,
        "iam": stack.config.iam,
    }
    scopes = ["openid", *(f"{API_AUDIENCE}/{scope}" for scope in SCOPES)]
    return Gate(
        issuer=issuer,
        audience=[*ids.values()],
        scope_prefix=f"{API_AUDIENCE}/",
        access=json.dumps(access),
        ids=ids,
        login=_login(issuer, people, scopes, None),
        connect=f"{host} {identity.login_url}",
    )


def _name(tenant: str, machine: str) -> str:
    """Name a machine's client by a hash: a function has the ids of 49 of any names in 4 KB.

    It is not the place in a list: a function that gets its code before its environment would take
    one machine for another.
    """
    return hashlib.sha256(f"{tenant}/{machine}".encode()).hexdigest()[:12]


def _list_declared(config: Config) -> Iterator[tuple[str, str, AnyRole]]:
    """Tenant, name and role of each machine in joblane.toml."""
    for tenant, settings in config.tenants.items():
        for machine, role in settings.machines.items():
            yield tenant, machine, role
    for machine in config.platform.machines:
        yield PLATFORM, machine, PLATFORM


def _people(stack: JoblaneStack, identity: IdentityStack, console: str) -> cognito.UserPoolClient:
    """Create the client for people: public, so PKCE protects the exchange of the code.

    It may request every scope, since Cognito gives scopes to clients and not to people; what a
    person may do follows from the groups in the token, see `joblane.contract.principal`.
    """
    client = cognito.UserPoolClient(
        stack,
        "People",
        user_pool=identity.pool,
        user_pool_client_name=f"{stack.config.name}-people",
        generate_secret=False,
        # Explicit, because Cognito's default lets clients send passwords without the login page.
        auth_flows=cognito.AuthFlow(user_srp=False),
        access_token_validity=TOKEN_VALIDITY,
        id_token_validity=TOKEN_VALIDITY,
        refresh_token_validity=LOGIN_VALIDITY,
        enable_token_revocation=True,
        prevent_user_existence_errors=True,
        supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
        o_auth=cognito.OAuthSettings(
            flows=cognito.OAuthFlows(authorization_code_grant=True),
            callback_urls=[*LOGIN_CALLBACKS, console],
            logout_urls=[console],
            scopes=[cognito.OAuthScope.OPENID, *_scopes(SCOPES)],
        ),
    )
    client.apply_removal_policy(RemovalPolicy.DESTROY)
    return client


def _machine(
    stack: JoblaneStack, identity: IdentityStack, name: tuple[str, str], role: AnyRole
) -> cognito.UserPoolClient:
    """Create a confidential client that can get only the scopes of its role."""
    tenant, machine = name
    called = tenant if machine == DEFAULT_MACHINE else f"{tenant}-{machine}"
    client = cognito.UserPoolClient(
        stack,
        f"Client-{called}",
        user_pool=identity.pool,
        user_pool_client_name=f"{stack.config.name}-{called}",
        generate_secret=True,
        access_token_validity=TOKEN_VALIDITY,
        prevent_user_existence_errors=True,
        o_auth=cognito.OAuthSettings(
            flows=cognito.OAuthFlows(client_credentials=True),
            scopes=_scopes(scope for scope in SCOPES if scope in ALL_ROLES[role]),
        ),
    )
    client.apply_removal_policy(RemovalPolicy.DESTROY)
    return client


def _scopes(scopes: Iterable[Scope]) -> list[cognito.OAuthScope]:
    return [cognito.OAuthScope.custom(f"{API_AUDIENCE}/{scope}") for scope in scopes]


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _login(issuer: str, client: str | None, scopes: Sequence[str], audience: str | None) -> str:
    return json.dumps(
        {
            "openid_configuration": f"{issuer}/.well-known/openid-configuration",
            "client_id": client,
            "scopes": scopes,
            "audience": audience,
        }
    )
