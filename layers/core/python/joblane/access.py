"""Who may do what: the one table of roles and scopes, and what a token's claims say of its bearer.

Each role holds the scopes of the role before it and its own:

    reader     looks on: a dashboard, a colleague who wants to see how a job went
    developer  runs jobs: submits them, cancels them, starts them again
    operator   keeps the deployment running: queues, agents, dead letters, doing it again
    admin      all of it, what concerns the deployment as a whole included

A role is given within one tenant and says nothing about any other.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Scope = Literal[
    "jobs.submit", "jobs.read", "jobs.cancel", "admin.read", "admin.mutate", "admin.stream"
]
"""OAuth scopes of the API (DESIGN.md section 11), each prefixed by `API_AUDIENCE/` in a token."""

Role = Literal["reader", "developer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

MEANING: Final[Mapping[Scope, str]] = MappingProxyType(
    {
        "jobs.submit": "Submit jobs, and start them again",
        "jobs.read": "Read jobs and their logs",
        "jobs.cancel": "Cancel, hide and delete jobs",
        "admin.read": "See queues, agents, conditions and dead jobs",
        "admin.mutate": "Change queues, drain agents, replay and dismiss dead jobs",
        "admin.stream": "Follow events of the whole deployment",
    }
)
"""What each scope opens, as a person who is asked to agree to it reads it."""

API_AUDIENCE: Final = "joblane"
"""Identifier of the OAuth resource server: a token's scope reads `joblane/jobs.read`."""

_READER: Final[tuple[Scope, ...]] = ("jobs.read",)
_DEVELOPER: Final[tuple[Scope, ...]] = (*_READER, "jobs.submit", "jobs.cancel")
_OPERATOR: Final[tuple[Scope, ...]] = (*_DEVELOPER, "admin.read", "admin.mutate")
_ADMIN: Final[tuple[Scope, ...]] = (*_OPERATOR, "admin.stream")

ROLES: Final[Mapping[Role, frozenset[Scope]]] = MappingProxyType(
    {
        "reader": frozenset(_READER),
        "developer": frozenset(_DEVELOPER),
        "operator": frozenset(_OPERATOR),
        "admin": frozenset(_ADMIN),
    }
)
"""The scopes of each role, from the least to the most."""

LOGIN_PORTS: Final = (8456, 18456, 28456)
"""Loopback ports of which `joblane login` listens on the first that is free: an issuer redirects
only to addresses that it was told before, and Cognito compares ports too."""

LOGIN_CALLBACKS: Final = tuple(f"http://localhost:{port}/callback" for port in LOGIN_PORTS)
"""Where an issuer must be allowed to send people back to."""


def group_name(tenant: str, role: Role) -> str:
    """Name of the user pool's group whose members have a role in a tenant: `main:operator`."""
    return f"{tenant}:{role}"
