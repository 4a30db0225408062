"""Accessibility of a page by axe-core, which runs in it."""

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.support.depth import DEEP

SOURCE = Path("node_modules/axe-core/axe.min.js")
CONTRAST = "color-contrast"

NEW_COLOURS = """async known => {
  const seen = new Set(known), fresh = new Map(), backs = new Map([[null, '']]);
  const back = element => {
    if (!backs.has(element)) {
      const {backgroundColor, backgroundImage, opacity, filter} = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity, filter].join(' ');
      const drawn = own === 'rgba(0, 0, 0, 0) none 1 none' ? '' : `/${own}`;
      backs.set(element, back(element.parentElement) + drawn);
    }
    return backs.get(element);
  };
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text && !element.matches('input, select, textarea')) continue;
    if (!element.checkVisibility()) continue;
    const {color, fontSize, fontWeight, textShadow} = getComputedStyle(element);
    const key = [element.matches(':disabled, [aria-disabled] *, label'), color, fontSize,
      fontWeight, textShadow, back(element)].join(' ');
    if (!seen.has(key) && !fresh.has(key)) fresh.set(key, element);
  }
  if (!fresh.size) return [[], []];
  const {violations, passes} = await axe.run({include: [...fresh.values()]},
    {runOnly: ['color-contrast'], elementRef: true});
  const decided = new Set([...violations, ...passes].flatMap(r => r.nodes.map(n => n.element)));
  const found = violations.map(({id, nodes}) => ({id,
    nodes: nodes.map(({html, failureSummary}) => ({html, failureSummary}))}));
  return [found, [...fresh].filter(([, element]) => decided.has(element)).map(([key]) => key)];
}"""
"""Looks at the contrast of a visible element of each kind that is not known yet.

Of one kind are elements with the same colours in front and behind, and letters of one size.
Disabled controls and labels, which axe may leave out, are kinds of their own. Returns what is
wrong, and the kinds that axe could decide; it is asked about the others again.
"""


@cache
def _source() -> str:
    return SOURCE.read_text(encoding="utf-8")


class Contrasts:
    """Kinds of elements whose contrast has been looked at, on any page and in any scheme."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def violations(self, page: Page) -> list[str]:
        """What axe finds wrong with contrasts, by default with those of elements of a new kind."""
        _load(page)
        if DEEP:
            return _run(page, {"runOnly": [CONTRAST]})
        found, decided = page.evaluate(NEW_COLOURS, list(self._known))
        self._known |= set(decided)
        return _lines(found)


def violations(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is drawn, but for contrasts."""
    _load(page)
    return _run(page, {"rules": {CONTRAST: {"enabled": False}}})


def _load(page: Page) -> None:
    if not page.evaluate("'axe' in globalThis"):
        # By the debugger: the policy of the page forbids inline scripts.
        session = page.context.new_cdp_session(page)
        session.send("Runtime.evaluate", {"expression": _source(), "silent": False})
        session.detach()


def _run(page: Page, options: dict[str, Any]) -> list[str]:
    options = {"resultTypes": ["violations"], **options}
    found = page.evaluate("options => axe.run(document, options)", options)
    return _lines(found["violations"])


def _lines(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{rule['id']}: {node['html'][:200]} ({' '.join(node['failureSummary'].split())})"
        for rule in found
        for node in rule["nodes"]
    ]
