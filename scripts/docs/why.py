"""The generated part of docs/reference/why.md: every kind of reason."""

from joblane.why.reason import KINDS
from scripts.docs.schema import escape


def codes() -> str:
    """A row for each code: what it means, and its facts."""
    rows = ["| code | meaning | facts |", "|---|---|---|"]
    for code, kind in sorted(KINDS.items()):
        facts = ", ".join(f"`{fact}`" for fact in kind.facts)
        rows.append(f"| `{code}` | {escape(kind.meaning)} | {facts} |")
    return "\n".join(rows)
