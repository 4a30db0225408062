"""Roles and scopes: the scopes of each role, and what each scope allows.

Each role of a tenant has the scopes of the role before it and its own:

    reader     reads jobs, their output, and queues
    developer  submits, cancels and restarts jobs
    operator   manages dead jobs, applications, and queues that are the tenant's alone
    admin      has every scope of a tenant; today those of an operator

Such a role is given within one tenant and gives no access to another one. What belongs to all
tenants (agents, queues that tenants share, applications without a tenant) is for the role
`platform`, which belongs to the deployment and reads no jobs (docs/decisions/0501).
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from joblane.deployment.names import PLATFORM

Scope = Literal[
    "jobs.submit",
    "jobs.read",
    "jobs.cancel",
    "admin.read",
    "admin.mutate",
    "platform.read",
    "platform.mutate",
]
"""OAuth scopes of the API, each prefixed by `API_AUDIENCE/` in a token."""

Role = Literal["reader", "developer", "operator", "admin"]
"""A role within a tenant."""

AnyRole = Role | Literal["platform"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

MEANING: Final[Mapping[Scope, str]] = MappingProxyType(
    {
        "jobs.submit": "Submit and restart jobs",
        "jobs.read": "Read jobs, their logs, and queues",
        "jobs.cancel": "Cancel, hide and delete jobs",
        "admin.read": "Read conditions, dead jobs and the audit trail",
        "admin.mutate": "Change the tenant's own queues and applications, replay dead jobs",
        "platform.read": "Read agents, all queues, and the audit trail of the role platform",
        "platform.mutate": "Change all queues, drain agents, declare applications for all tenants",
    }
)
"""What each scope allows, as the login page shows it."""

API_AUDIENCE: Final = "joblane"
"""Identifier of the OAuth resource server: a token's scope reads `joblane/jobs.read`."""

_READER: Final[tuple[Scope, ...]] = ("jobs.read",)
_DEVELOPER: Final[tuple[Scope, ...]] = (*_READER, "jobs.submit", "jobs.cancel")
_OPERATOR: Final[tuple[Scope, ...]] = (*_DEVELOPER, "admin.read", "admin.mutate")

PLATFORM_SCOPES: Final[frozenset[Scope]] = frozenset({"platform.read", "platform.mutate"})
"""The scopes of the role `platform`; no role of a tenant has one of them."""

ALL_ROLES: Final[Mapping[AnyRole, frozenset[Scope]]] = MappingProxyType(
    {
        "reader": frozenset(_READER),
        "developer": frozenset(_DEVELOPER),
        "operator": frozenset(_OPERATOR),
        "admin": frozenset(_OPERATOR),
        "platform": PLATFORM_SCOPES,
    }
)
"""The scopes of each role: those of tenants from the least to the most, then `platform`."""

ROLES: Final[Mapping[Role, frozenset[Scope]]] = MappingProxyType(
    {role: ALL_ROLES[role] for role in get_args(Role)}
)
"""The roles of a tenant, from the least to the most."""

LOGIN_PORTS: Final = (8456, 18456, 28456)
"""Loopback ports of `joblane login`, which uses the first free one: an issuer redirects only to
registered addresses, and Cognito compares ports too."""

LOGIN_CALLBACKS: Final = tuple(f"http://localhost:{port}/callback" for port in LOGIN_PORTS)
"""Redirect addresses that must be registered with the issuer, and below the API CONSOLE_PATH."""

CONSOLE_PATH: Final = "/console"
"""Path of the page below the address of the API; no slash follows, since issuers compare all."""


def roles_for(scopes: Collection[Scope]) -> str:
    """The least role of a tenant, or the role `platform`, that has one of these scopes.

    As an error names it: `operator`, `platform`, or `operator or platform`.
    """
    least = next((role for role, held in ROLES.items() if not held.isdisjoint(scopes)), None)
    platform = None if PLATFORM_SCOPES.isdisjoint(scopes) else PLATFORM
    return " or ".join(role for role in (least, platform) if role)


def group_name(tenant: str, role: Role) -> str:
    """Name of the user pool's group whose members have a role in a tenant: `main:operator`."""
    return f"{tenant}:{role}"
