"""The console's files as its function answers them: those of `console/`, without comments.

index.html is served at `/console`, without a slash at the end, and all others below
`/console/<version>/`, where <version> is a hash of all of them. So the names in index.html get
that prefix here, relative ones, since the local deployment serves the API below a path.
"""

import gzip
import hashlib
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from infra.errors import AssetError

INDEX = "index.html"

ENTRY = "app.js"
"""The module that index.html starts with."""

ENCODINGS = ("br", "gzip")
"""Compressed copies, the smallest first. Browsers take `br` over https only."""

TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by the ends of names; other files of the folder are not deployed. The one `.md` has
the licences of the libraries."""

OWN_LICENCES = "vendor/"
"""Libraries keep their comments: those name their packages."""

_COMMENT = re.compile(r"^[ \t]*(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*$", re.MULTILINE | re.DOTALL)
"""A comment that has its lines for itself."""

_TYPE = re.compile(r"/\*\*(?:(?!\*/)[^\n])*\*/ ?")
"""A comment within a line: a type. In strings it would be found, too, which a test rules out."""

_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
"""Spaces before a line; in templates of `html` they mean nothing either."""

_BROTLI = """\
const fs = require('fs'), zlib = require('zlib');
for (const path of process.argv.slice(1))
  fs.writeFileSync(`${path}.br`, zlib.brotliCompressSync(fs.readFileSync(path)));
"""
"""Python has no brotli; Node, without which there is no CDK, has."""

_IMPORT = re.compile(
    r"""^\s*(?:import\s*|(?:import|export)\b[^'"();]*?\bfrom\s*)['"](?P<name>\.[^'"]+)['"]""",
    re.MULTILINE,
)
_NAMED = re.compile(r'(?P<attribute>\b(?:href|src)=")(?P<name>[^":#?]+)"')


def read_console(folder: Path) -> dict[str, bytes]:
    """Read the files that are deployed, by their names in the folder.

    Raises AssetError without an index.html.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            if path.suffix in (".css", ".js") and not name.startswith(OWN_LICENCES):
                content = without_comments(content.decode("utf-8")).encode()
            files[name] = content
    if INDEX not in files:
        raise AssetError([f"{folder.name}/{INDEX}: missing; the console cannot be deployed"])
    return files


def without_comments(text: str) -> str:
    """Return a script or a style sheet without comments on whole lines, types and indentation.

    They are a fifth of what a browser would load. Their lines stay, empty, so that those that a
    browser names are those of the repository.
    """
    bare = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _INDENT.sub("", _TYPE.sub("", bare))


def first_modules(files: Mapping[str, bytes]) -> list[str]:
    """Return the modules that ENTRY needs before it runs, itself first.

    Those that it imports statically, and that they import. Raises AssetError for one that is
    missing, which a browser would say only when somebody opens the page.
    """
    found: list[str] = []

    def follow(name: str, importer: str) -> None:
        if name in found:
            return
        if name not in files:
            raise AssetError([f"console/{importer}: names {name}, which is not there"])
        found.append(name)
        for imported in imports(files[name].decode("utf-8")):
            follow(posixpath.normpath(posixpath.join(posixpath.dirname(name), imported)), name)

    follow(ENTRY, INDEX)
    return found


def imports(module: str) -> Iterator[str]:
    """Yield the specifiers of a module's static imports, in their order."""
    return (found["name"] for found in _IMPORT.finditer(module))


def render_index(files: Mapping[str, bytes], version: str) -> bytes:
    """Return index.html with the paths of this version, and a preload for each first module.

    Without the preloads a browser finds the modules one import after the other. Raises AssetError
    for a name that is not in the folder.
    """
    prefix = f"console/{version}"

    def replace(found: re.Match[str]) -> str:
        if found["name"] not in files:
            raise AssetError([f"console/{INDEX}: names {found['name']}, which is not there"])
        return f'{found["attribute"]}{prefix}/{found["name"]}"'

    page = _NAMED.sub(replace, files[INDEX].decode("utf-8"))
    before, end, after = page.partition("</head>")
    if not end:
        raise AssetError([f"console/{INDEX}: has no </head>, where the preloads belong"])
    preloads = "".join(
        f'  <link rel="modulepreload" href="{prefix}/{name}">\n  '
        for name in first_modules(files)
        if name != ENTRY
    )
    return f"{before}{preloads}{end}{after}".encode()


def write_console(folder: Path, into: Path) -> None:
    """Write `files/` and `console.json` of the function's bundle into a folder.

    A file has compressed copies beside it if they are smaller. Raises AssetError.
    """
    files = read_console(folder)
    version = _version(files)
    answers = {**files, INDEX: render_index(files, version)}
    places = {name: into / "files" / name for name in answers}
    for name, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(answers[name])
    compress(places.values())
    about = {
        name: {
            "type": TYPES[place.suffix],
            "sha256": hashlib.sha256(answers[name]).hexdigest()[:32],
            "encodings": [
                each for each in ENCODINGS if place.with_name(f"{place.name}.{each}").exists()
            ],
        }
        for name, place in places.items()
    }
    bundle = {"version": version, "files": about}
    (into / "console.json").write_text(json.dumps(bundle, sort_keys=True), encoding="utf-8")


def compress(places: Iterable[Path]) -> None:
    """Write a copy of each file in each of ENCODINGS beside it, where that is smaller.

    The same content gives the same bytes. Raises AssetError without Node.
    """
    places = list(places)
    for place in places:
        copy = gzip.compress(place.read_bytes(), compresslevel=9, mtime=0)
        place.with_name(f"{place.name}.gzip").write_bytes(copy)
    subprocess.run([_node(), "-e", _BROTLI, *places], check=True)
    for place in places:
        for encoding in ENCODINGS:
            copy_at = place.with_name(f"{place.name}.{encoding}")
            if copy_at.stat().st_size >= place.stat().st_size:
                copy_at.unlink()


def _node() -> str:
    """Node as scripts/setup installs it beside this Python, or of PATH."""
    path = os.pathsep.join((str(Path(sys.executable).parent), *os.get_exec_path()))
    if (found := shutil.which("node", path=path)) is None:
        raise AssetError(["node: not found on PATH or beside this Python; run scripts/setup"])
    return found


def _version(files: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]
