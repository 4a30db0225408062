"""The bundle of the console: names, versions, preloads, compressed copies; and its budget."""

import base64
import gzip
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.console_files import (
    ENTRY,
    first_modules,
    imports,
    read_console,
    render_index,
    without_comments,
    write_console,
)
from infra.errors import AssetError

ROOT = Path(__file__).parents[3]
CONSOLE = ROOT / "console"

BUDGET_BYTES = 103_000
"""Of the files that a browser has loaded when every page was opened once, compressed.

A page takes 1,000 to 3,900 bytes; that of schedules, with its calendar and results, 2,800."""

FIRST_REQUESTS = 20
"""Of the page, its style sheet, its icon and its modules, before a person has chosen anything."""


def unbrotli(copies: Sequence[Path]) -> list[bytes]:
    """What is in compressed files, by one process."""
    node = str(Path(sys.executable).parent / "node")
    program = """
const fs = require('fs'), zlib = require('zlib');
const read = (file) => zlib.brotliDecompressSync(fs.readFileSync(file)).toString('base64');
process.stdout.write(JSON.stringify(JSON.parse(fs.readFileSync(0, 'utf8')).map(read)));
"""
    asked = json.dumps([str(copy) for copy in copies])
    told = subprocess.check_output([node, "-e", program], input=asked, text=True)
    return [base64.b64decode(text) for text in json.loads(told)]


INDEX = b"""<head>
    <link rel="icon" href="icon.svg" type="image/svg+xml">
    <script type="module" src="app.js"></script>
  </head>
"""
SAME = """
const ts = require('typescript'), fs = require('fs');
const printer = ts.createPrinter({ removeComments: true });
const parsed = (text) => ts.createSourceFile('a.js', text, ts.ScriptTarget.Latest, true);
const line = (file, each) => file.getLineAndCharacterOfPosition(each.getStart()).line;
const flat = (file) => printer.printFile(file).replace(/\\n\\s+/g, '\\n');
const isText = (each) => (ts.isTemplateExpression(each) || ts.isNoSubstitutionTemplateLiteral(each))
  && each.getText().includes('\\n') && each.parent.tag?.getText() !== 'html';
const hasText = (each) => isText(each) || ts.forEachChild(each, hasText) || false;
const lines = (file) => file.statements.map((each) => line(file, each));
const said = JSON.parse(fs.readFileSync(process.argv[1], 'utf8')).map((pair) => {
  const [before, after] = pair.map(parsed);
  const same = flat(before) === flat(after) && !hasText(before);
  return same && String(lines(before)) === String(lines(after)) ? 'same' : printer.printFile(after);
});
console.log(JSON.stringify(said));
"""

DECOMPRESS: dict[str, Callable[[Sequence[Path]], list[bytes]]] = {
    "gzip": lambda copies: [gzip.decompress(copy.read_bytes()) for copy in copies],
    "br": unbrotli,
}

FILES = {
    "app.js": b"import './pages/a.js';\nimport {\n  b,\n} from './b.js';\nimport('./late.js');",
    "b.js": b"export * from './pages/a.js';\n/** @typedef {import('./types').Job} Job */\n",
    "icon.svg": b"<svg/>",
    "index.html": INDEX,
    "late.js": b"",
    "pages/a.js": b"import { b } from '../b.js';\nexport const from = './nowhere.js';\n",
}


@pytest.fixture(name="console", scope="module")
def _console(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the console."""
    folder = tmp_path_factory.mktemp("console")
    write_console(CONSOLE, folder)
    return folder


def test_the_files_of_all_pages_are_within_the_budget(console: Path):
    """Not of the budget are the licences, which no page loads, and what a page loads at need.

    That is when somebody edits a job or uploads a file, and for a grid of a group's members.
    """
    about, files = told(console)["files"], read_console(CONSOLE)
    modules = {ENTRY}
    todo = [ENTRY, *re.findall(r"import\('\./(pages/[^']+)'\)", files[ENTRY].decode())]
    while todo:
        name = todo.pop()
        modules.add(name)
        near = (f"{Path(name).parent}/{each}" for each in imports(files[name].decode()))
        todo += {posixpath.normpath(each) for each in near} - modules
    late = {name for name in files if name.endswith(".js")} - modules
    grid = {"member-grid.js", "members.js", "pages/group-map.js"}
    assert {"edit-form.js", "pages/job-edit.js", "uploads.js"} | grid == late
    places = {
        name: console / "files" / (f"{name}.br" if "br" in each["encodings"] else name)
        for name, each in about.items()
        if name not in late and not name.endswith(".md")
    }
    sizes = {name: place.stat().st_size for name, place in places.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    said = ", ".join(f"{name} {sizes[name]}" for name in largest)
    print(f"{sum(sizes.values())} bytes compressed in {len(sizes)} files; {said}")
    assert sum(sizes.values()) < BUDGET_BYTES, said


def test_the_first_view_needs_few_requests():
    page = render_index(read_console(CONSOLE), "v").decode()
    named = re.findall(r'\b(?:href|src)="(console/v/[^"]+)"', page)
    assert len(named) == len(set(named))
    print(f"{1 + len(named)} requests")
    assert 1 + len(named) <= FIRST_REQUESTS, named


def test_index_has_no_script_or_style_of_its_own_and_names_nothing_elsewhere():
    page = (CONSOLE / "index.html").read_text("utf-8")
    assert [] == re.findall(r"<style|\sstyle=|\son\w+=|//[a-z]", page)
    for script in re.findall(r"<script[^>]*>.*?</script>", page, flags=re.DOTALL):
        assert re.fullmatch(r'<script type="module" src="[^"]+"></script>', script)


def test_modules_import_files_of_the_console_only():
    for path in CONSOLE.rglob("*.js"):
        text = path.read_text("utf-8")
        bare = re.findall(r"""(?m)^\s*import\b[^'"();]*?['"]([^.'"][^'"]*)['"]""", text)
        assert [] == bare, path.name
        for name in (*imports(text), *re.findall(r"""\bimport\(\s*['"](\./[^'"]+)['"]""", text)):
            if name.endswith(".js"):
                assert (path.parent / name).is_file(), f"{path.name}: {name}"


def test_first_modules_are_those_of_static_imports():
    assert ["app.js", "pages/a.js", "b.js"] == first_modules(FILES)


def test_index_names_files_of_its_version_and_preloads_modules():
    page = render_index(FILES, "0123").decode()
    assert [
        "console/0123/icon.svg",
        "console/0123/app.js",
        "console/0123/pages/a.js",
        "console/0123/b.js",
    ] == re.findall(r'\b(?:href|src)="([^"]+)"', page)
    assert 2 == page.count('<link rel="modulepreload"')


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({**FILES, "b.js": b"import './gone.js';"}, "console/b.js: names gone.js"),
        ({**FILES, "index.html": b'<head><img src="no.svg"></head>'}, "index.html: names no.svg"),
        ({**FILES, "index.html": b"<p>"}, "has no </head>"),
    ],
)
def test_a_name_of_nothing_is_refused(files: dict[str, bytes], said: str):
    with pytest.raises(AssetError, match=re.escape(said)):
        render_index(files, "v")


def test_a_folder_without_index_is_refused(tmp_path: Path):
    with pytest.raises(AssetError, match=r"index\.html: missing"):
        read_console(tmp_path)


def bundle(source: Path, into: Path) -> dict[str, Any]:
    write_console(source, into)
    return told(into)


def told(folder: Path) -> dict[str, Any]:
    """What a bundle says of its files."""
    about: dict[str, Any] = json.loads((folder / "console.json").read_text())
    return about


def test_types_and_other_files_of_developers_are_not_deployed(console: Path):
    names = set(told(console)["files"])
    assert {"index.html", "app.js", "vendor/preact.js", "vendor/README.md"} <= names
    assert {".css", ".html", ".js", ".md", ".svg"} == {Path(name).suffix for name in names}
    assert not [name for name in names if name.endswith(".d.ts")]


def test_a_change_of_any_file_changes_the_paths_of_all(tmp_path: Path):
    source = tmp_path / "console"
    for name, content in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    first = bundle(source, tmp_path / "1")
    assert first == bundle(source, tmp_path / "2")
    (source / "late.js").write_bytes(b"export {};")
    second = bundle(source, tmp_path / "3")
    assert first["version"] != second["version"]
    tags = [each["files"]["index.html"]["sha256"] for each in (first, second)]
    assert tags[0] != tags[1]
    assert first["files"]["app.js"] == second["files"]["app.js"]


def test_compressed_copies_have_the_same_content(console: Path):
    about = told(console)
    for encoding, decompress in DECOMPRESS.items():
        places = []
        for name, each in about["files"].items():
            place = console / "files" / name
            copy = place.with_name(f"{place.name}.{encoding}")
            assert (encoding in each["encodings"]) == copy.exists()
            if copy.exists():
                assert copy.stat().st_size < place.stat().st_size
                places.append((place, copy))
        contents = decompress([copy for _, copy in places])
        assert [place.read_bytes() for place, _ in places] == contents
    assert ["br", "gzip"] == about["files"]["vendor/preact.js"]["encodings"]


def test_what_compression_makes_larger_is_not_compressed(tmp_path: Path):
    (tmp_path / "console").mkdir()
    for name, content in {**FILES, "small.css": b"a{}"}.items():
        (tmp_path / "console" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "console" / name).write_bytes(content)
    about = bundle(tmp_path / "console", tmp_path / "made")
    assert [] == about["files"]["small.css"]["encodings"]
    made = {path.name for path in (tmp_path / "made" / "files").iterdir()}
    assert "small.css" in made
    assert not made & {"small.css.br", "small.css.gzip"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a();\n// one\nb();\n", "a();\n\nb();\n"),
        ("/** one\n * two */\nb();\n", "\n\nb();\n"),
        ("  /** @type {X} */ (a).b = 1;\n/* c */\n", "(a).b = 1;\n\n"),
        ("a(); // stays\n", "a(); // stays\n"),
        ("const a = 'https://b'; /* c\n d */\n", "const a = 'https://b'; /* c\nd */\n"),
        ("a {\n  /* why */\n  color: red;\n}\n", "a {\n\ncolor: red;\n}\n"),
    ],
)
def test_comments_on_whole_lines_types_and_indentation_are_left_out(before: str, after: str):
    assert after == without_comments(before)


def test_nothing_but_comments_is_left_out(tmp_path: Path):
    """By TypeScript's own parser: both texts mean the same program, line by line."""
    names = [path for path in CONSOLE.rglob("*.js") if "vendor" not in path.parts]
    pairs = tmp_path / "pairs.json"
    texts = [path.read_text("utf-8") for path in names]
    pairs.write_text(json.dumps([(text, without_comments(text)) for text in texts]), "utf-8")
    node = shutil.which("node", path=str(Path(sys.executable).parent))
    assert node is not None
    done = subprocess.run(
        [node, "-e", SAME, pairs], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ["same"] * len(names) == json.loads(done.stdout)
    assert sum(map(len, texts)) > sum(len(without_comments(text)) for text in texts)
