"""Copies the console's libraries from node_modules to console/vendor (`scripts/vendor`).

The console has no build step, so its libraries are modules in the repository. Each is what its
npm package has, but for three changes: bare imports become relative ones, the reference to a
source map goes, and a comment names the package. README.md there has their versions and licences.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "console" / "vendor"
PACKAGES = ROOT / "node_modules"


@dataclass(frozen=True)
class Library:
    """A file of console/vendor and where it comes from."""

    name: str
    package: str
    source: str
    """Path of the file in the package."""


LIBRARIES = (
    Library("preact.js", "preact", "dist/preact.mjs"),
    Library("hooks.js", "preact", "hooks/dist/hooks.mjs"),
    Library("htm.js", "htm", "dist/htm.mjs"),
)

_IMPORTS = {"preact": "./preact.js"}
"""Bare specifiers: browsers resolve them only by an import map, which would be an inline script."""

_README = """\
# Libraries of the console

Written by `scripts/vendor` from node_modules; a test compares them. To change a version, edit
package.json, run `npm install` and `scripts/vendor`. The SHA-512 is that of the npm package in
package-lock.json, which `npm ci` checks. The files with types (`.d.ts`) are ours, and not deployed.

| file | package | version | licence | SHA-512 of the package |
|---|---|---|---|---|
{rows}

{licences}
"""


def files() -> dict[str, str]:
    """Every generated file of console/vendor by its name.

    Raises ValueError for a bare import that has no file here, and FileNotFoundError without
    node_modules.
    """
    locked = json.loads((ROOT / "package-lock.json").read_text("utf-8"))["packages"]
    made = {library.name: _text(library) for library in LIBRARIES}
    return {**made, "README.md": _readme(locked)}


def _text(library: Library) -> str:
    folder = PACKAGES / library.package
    about = _read_package(library.package)
    text = (folder / library.source).read_text("utf-8")
    text = re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "", text)
    title = f"{library.package} {about['version']}, {about['license']}: README.md"
    return f"/*! {title} */\n{relative_imports(text)}".rstrip("\n") + "\n"


def relative_imports(module: str) -> str:
    """Return a minified module with its bare imports replaced. Raises ValueError for others."""

    def replace(found: re.Match[str]) -> str:
        specifier = found["specifier"]
        if specifier.startswith("./"):
            return found[0]
        if specifier not in _IMPORTS:
            raise ValueError(f"imports {specifier!r}, which is not in console/vendor")
        return f'{found["before"]}"{_IMPORTS[specifier]}"'

    statement = r"(?P<before>\b(?:import|export)[\w\s{},*$]*(?:\bfrom\s*|(?<=import)\s*))"
    return re.sub(statement + r'"(?P<specifier>[^"\n]+)"', replace, module)


def _read_package(package: str) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((PACKAGES / package / "package.json").read_text("utf-8"))
    return about


def _readme(locked: dict[str, dict[str, Any]]) -> str:
    rows = [
        f"| {library.name} | {library.package} `{library.source}` | {entry['version']} "
        f"| {entry['license']} | `{entry['integrity'].removeprefix('sha512-')}` |"
        for library in LIBRARIES
        for entry in [locked[f"node_modules/{library.package}"]]
    ]
    return _README.format(rows="\n".join(rows), licences="\n\n".join(_licences()))


def _licences() -> Iterator[str]:
    for package in dict.fromkeys(library.package for library in LIBRARIES):
        if _read_package(package)["license"] == "Apache-2.0":
            yield f"## {package}\n\nApache-2.0: the text is [LICENSE](../../LICENSE)."
        else:
            text = (PACKAGES / package / "LICENSE").read_text("utf-8").strip()
            yield f"## {package}\n\n```text\n{text}\n```"


def main() -> None:
    """Write the files; what is not generated stays."""
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
