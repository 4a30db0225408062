"""The generated parts of docs/reference/roles.md: scopes of roles, and roles of routes."""

from joblane.contract.access import MEANING, ROLES, SCOPES
from joblane.contract.route import Route
from joblane.contract.routes import ROUTES


def scopes() -> str:
    """The scopes that each role has."""
    lines = ["| scope | " + " | ".join(ROLES) + " | allows |", "|---" * (len(ROLES) + 2) + "|"]
    for scope in SCOPES:
        held = ("yes" if scope in held else "" for held in ROLES.values())
        lines.append(f"| `{scope}` | {' | '.join(held)} | {MEANING[scope]} |")
    return "\n".join(lines)


def least_role(route: Route) -> str:
    """The first role, from the weakest on, that may call a route."""
    return next((role for role, held in ROLES.items() if route.scope in held), "anyone")


def routes() -> str:
    """The scope that each route needs."""
    lines = ["| route | scope | least role |", "|---|---|---|"]
    for route in ROUTES:
        scope = f"`{route.scope}`" if route.scope else "-"
        lines.append(f"| `{route.key}` | {scope} | {least_role(route)} |")
    return "\n".join(lines)
