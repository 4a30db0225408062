"""The generated parts of docs/reference/roles.md: scopes of roles, and roles of routes."""

from joblane.contract.access import ALL_ROLES, MEANING, SCOPES, roles_for
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES


def scopes() -> str:
    """The scopes that each role has."""
    heading = f"| scope | {' | '.join(ALL_ROLES)} | allows |"
    lines = [heading, "|---" * (len(ALL_ROLES) + 2) + "|"]
    for scope in SCOPES:
        held = ("yes" if scope in held else "" for held in ALL_ROLES.values())
        lines.append(f"| `{scope}` | {' | '.join(held)} | {MEANING[scope]} |")
    return "\n".join(lines)


def least_role(route: Route) -> str:
    """The roles that a caller of a route needs: the least of a tenant's, or `platform`."""
    return roles_for(route.scopes) or "anyone"


def routes() -> str:
    """The scopes of which each route needs one."""
    lines = ["| route | scope | least role |", "|---|---|---|"]
    for route in ROUTES:
        scope = " or ".join(f"`{scope}`" for scope in route.scopes) or "-"
        lines.append(f"| `{route.key}` | {scope} | {least_role(route)} |")
    return "\n".join(lines)
