"""Accessibility of a page by axe-core, which runs in it."""

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCE = Path("node_modules/axe-core/axe.min.js")


@cache
def _source() -> str:
    return SOURCE.read_text(encoding="utf-8")


def violations(page: Page, *rules: str) -> list[str]:
    """What axe finds wrong with the page as it is drawn; with `rules`, by these only."""
    if not page.evaluate("'axe' in globalThis"):
        # By the debugger: the policy of the page forbids inline scripts.
        session = page.context.new_cdp_session(page)
        session.send("Runtime.evaluate", {"expression": _source(), "silent": False})
        session.detach()
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{rule['id']}: {node['html'][:200]} ({' '.join(node['failureSummary'].split())})"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
