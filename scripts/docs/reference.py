"""Writes what is generated: docs/reference, OpenAPI, the SDK's models, the index of decisions.

`scripts/reference` runs it.

A page of docs/reference is written by hand but for its parts between two marks, any other page but
for the programs of examples/ that it shows:

    <!-- begin NAME: written by scripts/reference -->
    <!-- end NAME -->
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.docs import (
    api,
    cli,
    configuration,
    decisions,
    events,
    examples,
    job_events,
    models,
    openapi,
    roles,
    sdk,
    states,
    why,
)

PAGES = Path(__file__).parents[2] / "docs" / "reference"

PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "agent-protocol.md": {"events": events.events},
    "api.md": {"operations": api.operations, "objects": api.objects},
    "cli.md": {"commands": cli.commands},
    "configuration.md": {
        "deployment": configuration.deployment,
        "agent options": configuration.agent_options,
        "agent file": configuration.agent_file,
    },
    "events.md": {
        "names": job_events.names,
        "fields": job_events.fields,
        "schema": job_events.schema,
    },
    "roles.md": {"scopes": roles.scopes, "routes": roles.routes},
    "sdk.md": {"names": sdk.names},
    "states.md": {
        "transitions": states.transitions,
        "groups": states.groups,
        "computed": states.list_computed,
        "exit-codes": states.list_exit_codes,
        "outcomes": states.outcomes,
    },
    "why.md": {"codes": why.codes},
}
"""The generated parts of each page."""


def files() -> dict[Path, str]:
    """Every generated file as it should be."""
    made = {page: with_parts(page.read_text("utf-8"), parts(page)) for page in pages()}
    index = decisions.FOLDER / "README.md"
    listed = with_parts(index.read_text("utf-8"), {"index": decisions.index})
    api = {openapi.FILE: openapi.render(), models.FILE: models.render()}
    return {**api, **made, index: listed}  # one of the pages


def pages() -> list[Path]:
    """README.md and all pages of docs."""
    return [examples.ROOT / "README.md", *sorted(PAGES.parent.rglob("*.md"))]


def parts(page: Path) -> Mapping[str, Callable[[], str]]:
    """The generated parts of a page, by the names in their marks."""
    own = PARTS.get(page.name, {}) if page.parent == PAGES else {}
    return {**own, **examples.find_parts(page.read_text("utf-8"))}


def with_parts(
    text: str, parts: Mapping[str, Callable[[], str]], command: str = "scripts/reference"
) -> str:
    """A page with its parts made anew. Raises ValueError for a part without its two marks.

    `command` is the one that the marks name.
    """
    for name, render in parts.items():
        begin = f"<!-- begin {name}: written by {command} -->\n"
        end = f"\n<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed) or begin in rest:
            raise ValueError(f"the page must have one begin and one end mark of {name!r}")
        text = f"{before}{begin}\n{render()}\n{end}{after}"
    return text


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
