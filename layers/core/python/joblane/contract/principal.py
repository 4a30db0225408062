"""The caller, from the claims of a token that API Gateway has verified.

A caller may do what both its token and its role allow. A person's token of Cognito carries every
scope of the client the person logged in with, whoever the person is, so the role decides; a
machine that asked for fewer scopes than its role has gets no more than it asked for.

API Gateway hands claims over as text: a list reads `[main:operator other:reader]`, like a list of
the one value `main:operator other:reader`. `with_lists` restores the list from the token, because
only a whole value names a role or a group.
"""

import base64
import binascii
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from joblane.audit.who import Who
from joblane.contract.access import (
    ALL_ROLES,
    API_AUDIENCE,
    PLATFORM_SCOPES,
    ROLES,
    SCOPES,
    AnyRole,
    Role,
    Scope,
)
from joblane.deployment.names import PLATFORM
from joblane.errors import Failure

Claims = Mapping[str, Any]


class NotAdmitted(Failure):
    """The token is valid but gives no access to this deployment; the text says why."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, its tenant and its scopes."""

    kind: Literal["person", "machine"]
    subject: str
    """The token's `sub`: unique within the issuer and never reused."""
    name: str
    """Name of the user or machine. It may change; `subject` does not."""
    tenant: str
    """`PLATFORM` for the role platform, which belongs to no tenant."""
    role: AnyRole | None
    """None if the issuer gives scopes and no role."""
    scopes: frozenset[Scope]
    request_id: str | None = None
    """Id of the request that it makes, as in the logs; None outside of the API."""

    @property
    def who(self) -> Who:
        """The caller as the tables store it."""
        return Who(self.kind, self.subject, self.name)

    def __str__(self) -> str:
        name = self.name if self.kind == "person" else f"machine {self.name}"
        return f"{name} (platform)" if self.tenant == PLATFORM else name


def with_lists(claims: Claims, authorization: str | None) -> Claims:
    """Return the claims, with those that are lists in the token as lists.

    `authorization` is the header of the request, whose token API Gateway has verified. Only where
    the values of a list begin and end is taken from it: a list that does not read as API Gateway's
    text stays that text.
    """
    texts = {
        name: text
        for name, text in claims.items()
        if isinstance(text, str) and text.startswith("[")
    }
    payload = _payload(authorization or "") if texts else {}
    return {**claims, **{n: payload[n] for n in texts if _as_text(payload.get(n)) == texts[n]}}


def _payload(authorization: str) -> Claims:
    """The claims of a token in the form of JSON; empty if it is not a token."""
    parts = authorization.rpartition(" ")[2].split(".")
    try:
        body = base64.urlsafe_b64decode(parts[1] + "==")
        found = json.loads(body)
    except (IndexError, binascii.Error, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_text(value: object) -> str | None:
    """A list as API Gateway writes it; None for anything but a list of strings."""
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return f"[{' '.join(value)}]"
    return None


class Machine(NamedTuple):
    """A client of the user pool, from joblane.toml."""

    tenant: str
    role: AnyRole
    name: str


BOTH = "{} the role platform and a role in a tenant; the API needs exactly one"


class RoleAccess(BaseModel):
    """Callers with an IAM role, whose signatures API Gateway has verified."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    tenants: frozenset[str]
    iam: Mapping[str, Machine] = {}
    """By the ARN of its sessions without the session's name."""

    def holder(self, identity: Claims) -> Principal:
        """Identify who signed a request. Raises NotAdmitted if its role belongs to no tenant.

        `identity` is what API Gateway says of the signer. The subject is the role's unique id,
        which the role of the same name that is created later does not have.
        """
        arn, _, session = str(identity.get("userArn", "")).rpartition("/")
        machine = self.iam.get(arn)
        if machine is None:
            raise NotAdmitted("the IAM role that signed the request belongs to no tenant")
        subject = str(identity.get("userId", "")).partition(":")[0]
        name, scopes = f"{machine.name}/{session}", ALL_ROLES[machine.role]
        return Principal("machine", subject, name, machine.tenant, machine.role, scopes)


class PoolAccess(RoleAccess):
    """Tokens of the deployment's own user pool."""

    kind: Literal["pool"] = "pool"
    people: str
    """Id of the client that people log in with."""
    machines: Mapping[str, Machine]
    """By the id of their client."""

    def principal(self, claims: Claims) -> Principal:
        """Identify the bearer of a token. Raises NotAdmitted if it belongs to no tenant."""
        client = str(claims.get("client_id", ""))
        asked = _scopes(claims, f"{API_AUDIENCE}/")
        if client == self.people:
            tenant, role = self._membership(_groups(claims.get("cognito:groups", "")))
            subject = str(claims.get("sub", ""))
            name = str(claims.get("username") or subject)
            return Principal("person", subject, name, tenant, role, asked & ALL_ROLES[role])
        machine = self.machines.get(client)
        if machine is None:
            raise NotAdmitted("the token's client belongs to no tenant")
        scopes = asked & ALL_ROLES[machine.role]
        return Principal("machine", client, machine.name, machine.tenant, machine.role, scopes)

    def _membership(self, groups: Collection[str]) -> tuple[str, AnyRole]:
        """Tenant and role of a person by groups named `tenant:role`; the highest role counts.

        The group `platform` gives the role of that name.
        """
        found: dict[str, list[str]] = {}
        for group in groups:
            tenant, _, role = group.partition(":")
            if tenant in self.tenants and role in ROLES:
                found.setdefault(tenant, []).append(role)
        if PLATFORM in groups and not found:
            return PLATFORM, PLATFORM
        if not found:
            raise NotAdmitted("this person has no role in any tenant; an administrator gives one")
        if len(found) > 1:
            raise NotAdmitted("this person has roles in several tenants; the API needs exactly one")
        if PLATFORM in groups:
            raise NotAdmitted(BOTH.format("this person has"))
        ((tenant, roles),) = found.items()
        return tenant, _highest(roles)


class IssuerAccess(RoleAccess):
    """Tokens of another OpenID Connect issuer."""

    kind: Literal["issuer"] = "issuer"
    tenant_claim: str
    role_claim: str | None = None
    """The claim with a role's name; None if the token's scopes are used, which never give those of
    the role platform."""

    def principal(self, claims: Claims) -> Principal:
        """Identify the bearer of a token. Raises NotAdmitted if it belongs to no tenant."""
        values = _values(claims.get(self.role_claim, "")) if self.role_claim else frozenset[str]()
        roles = values & ROLES.keys()
        if PLATFORM in values and roles:
            raise NotAdmitted(BOTH.format("the token names"))
        tenant = str(claims.get(self.tenant_claim, ""))
        role: AnyRole | None = None
        if PLATFORM in values:
            tenant = role = PLATFORM
        elif tenant not in self.tenants:
            raise NotAdmitted("the token belongs to no tenant of this deployment")
        elif roles:
            role = _highest(roles)
        elif self.role_claim is not None:
            raise NotAdmitted("the token names no role of this API")
        scopes = ALL_ROLES[role] if role else _scopes(claims, "") - PLATFORM_SCOPES
        client = str(claims.get("client_id") or claims.get("azp") or "")
        subject = str(claims.get("sub") or client)
        # RFC 9068: a token that a client got for itself has that client as its subject.
        machine = subject == client
        name = str(claims.get("preferred_username") or claims.get("email") or subject)
        return Principal("machine" if machine else "person", subject, name, tenant, role, scopes)


Access = PoolAccess | IssuerAccess
AnyAccess = Annotated[Access, Field(discriminator="kind")]
"""The value of JOBLANE_ACCESS, which the stacks write."""


def _highest(roles: Iterable[str]) -> Role:
    return [role for role in ROLES if role in roles][-1]


def _scopes(claims: Claims, prefix: str) -> frozenset[Scope]:
    given = claims.get("scope") or claims.get("scp") or ""
    held = frozenset(given.split()) if isinstance(given, str) else _values(given)
    return frozenset(scope for scope in SCOPES if f"{prefix}{scope}" in held)


def _values(claim: object) -> frozenset[str]:
    """The values of a claim: the entries of a list, or one text as a whole."""
    return frozenset(map(str, claim)) if isinstance(claim, list) else frozenset({str(claim)})


def _groups(claim: object) -> frozenset[str]:
    """The groups of a person. Cognito's have no spaces, so the text of a list is unambiguous."""
    if isinstance(claim, str) and claim.startswith("[") and claim.endswith("]"):
        return frozenset(claim[1:-1].split())
    return _values(claim)
