"""Roles and scopes: the scopes of each role, and what each scope allows.

Each role has the scopes of the role before it and its own:

    reader     reads jobs and their output
    developer  submits, cancels and restarts jobs
    operator   manages queues, agents, conditions and dead jobs
    admin      has every scope; today those of an operator

A role is given within one tenant and gives no access to another one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Scope = Literal["jobs.submit", "jobs.read", "jobs.cancel", "admin.read", "admin.mutate"]
"""OAuth scopes of the API, each prefixed by `API_AUDIENCE/` in a token."""

Role = Literal["reader", "developer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

MEANING: Final[Mapping[Scope, str]] = MappingProxyType(
    {
        "jobs.submit": "Submit and restart jobs",
        "jobs.read": "Read jobs and their logs",
        "jobs.cancel": "Cancel, hide and delete jobs",
        "admin.read": "Read queues, agents, conditions and dead jobs",
        "admin.mutate": "Change queues, drain agents, replay and dismiss dead jobs",
    }
)
"""What each scope allows, as the login page shows it."""

API_AUDIENCE: Final = "joblane"
"""Identifier of the OAuth resource server: a token's scope reads `joblane/jobs.read`."""

_READER: Final[tuple[Scope, ...]] = ("jobs.read",)
_DEVELOPER: Final[tuple[Scope, ...]] = (*_READER, "jobs.submit", "jobs.cancel")
_OPERATOR: Final[tuple[Scope, ...]] = (*_DEVELOPER, "admin.read", "admin.mutate")

ROLES: Final[Mapping[Role, frozenset[Scope]]] = MappingProxyType(
    {
        "reader": frozenset(_READER),
        "developer": frozenset(_DEVELOPER),
        "operator": frozenset(_OPERATOR),
        "admin": frozenset(SCOPES),
    }
)
"""The scopes of each role, from the least to the most."""

LOGIN_PORTS: Final = (8456, 18456, 28456)
"""Loopback ports of `joblane login`, which uses the first free one: an issuer redirects only to
registered addresses, and Cognito compares ports too."""

LOGIN_CALLBACKS: Final = tuple(f"http://localhost:{port}/callback" for port in LOGIN_PORTS)
"""Redirect addresses that must be registered with the issuer."""


def group_name(tenant: str, role: Role) -> str:
    """Name of the user pool's group whose members have a role in a tenant: `main:operator`."""
    return f"{tenant}:{role}"
