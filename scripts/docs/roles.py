"""Writes the tables of docs/SECURITY.md from those of the code: scripts/roles, after a change."""

from pathlib import Path

from joblane.access import MEANING, ROLES, SCOPES
from joblane.routes import ROUTES
from scripts.docs.between import between

FILE = Path(__file__).parents[2] / "docs" / "SECURITY.md"

BEGIN = "<!-- roles: written by scripts/roles from joblane/access.py and joblane/routes.py -->\n"
END = "<!-- end of roles -->\n"


def render() -> str:
    """The tables, with an empty line before and after."""
    roles = ["| scope | " + " | ".join(ROLES) + " | opens |", "|---" * (len(ROLES) + 2) + "|"]
    for scope in SCOPES:
        held = ("yes" if scope in scopes else "" for scopes in ROLES.values())
        roles.append(f"| `{scope}` | {' | '.join(held)} | {MEANING[scope]} |")
    routes = ["| route | scope | least role |", "|---|---|---|"]
    for route in ROUTES:
        least = next((role for role, scopes in ROLES.items() if route.scope in scopes), "anyone")
        routes.append(f"| `{route.key}` | {f'`{route.scope}`' if route.scope else '-'} | {least} |")
    return "\n".join(["", *roles, "", *routes, "", ""])


def page(text: str) -> str:
    """The page with its tables as they should be."""
    return between(text, BEGIN, render(), END)


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
