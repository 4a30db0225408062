"""The generated parts of docs/reference are what the code says."""

import pytest

from joblane.contract.routes import ROUTES
from joblane.state.lifecycle import TABLE, State
from scripts.docs import api, configuration, decisions, examples, roles, states
from scripts.docs.examples import introduction
from scripts.docs.reference import PAGES, files, pages, parts, with_parts


def test_pages_are_what_the_code_says():
    made = files()
    assert made == {path: path.read_text("utf-8") for path in made}, "run scripts/reference"


def test_every_page_with_marks_has_its_parts():
    for page in set(pages()) - {decisions.FOLDER / "README.md"}:
        marks = page.read_text(encoding="utf-8").count(": written by scripts/reference -->")
        assert marks == len(parts(page)), page.name


def test_each_program_of_examples_is_shown_once_at_least():
    shown = {name for page in pages() for name in parts(page) if name.startswith("examples/")}
    files = {
        str(file.relative_to(examples.ROOT))
        for file in (examples.ROOT / "examples").rglob("*")
        if file.suffix in examples.LANGUAGES and file.stat().st_size
    }
    assert files == shown
    assert len(files) >= 20


def test_a_program_is_shown_without_its_introduction():
    assert '"""It says hello."""\n\n' == introduction('"""It says hello."""\n\nprint("hello")\n')
    assert "# It\n# says hello.\n" == introduction("# It\n# says hello.\necho hello\n\n# Output:\n")
    with pytest.raises(ValueError, match="begins with"):
        introduction("print(1)\n")


def test_a_part_replaces_what_stands_between_its_marks():
    text = "a\n<!-- begin x: written by scripts/reference -->\nold\n<!-- end x -->\nb\n"
    made = with_parts(text, {"x": lambda: "new"})
    assert text.replace("old\n", "\nnew\n\n") == made
    assert made == with_parts(made, {"x": lambda: "new"})
    with pytest.raises(ValueError, match="'x'"):
        with_parts("no marks", {"x": lambda: "new"})


def test_every_transition_has_its_line():
    lines = states.transitions().splitlines()
    for (state, event), to in TABLE.items():
        assert 1 == sum(line.startswith(f"| {state} | {event} | {to} | ") for line in lines)


def test_every_state_says_what_it_means_to_a_user():
    meanings, _, _ = (PAGES / "states.md").read_text(encoding="utf-8").partition("\n## ")
    rows = [line.split(" | ")[0] for line in meanings.splitlines() if line.startswith("| ")]
    assert ["| state", *(f"| {state}" for state in State)] == rows


def test_every_route_has_its_line():
    lines = roles.routes().splitlines()
    for route in ROUTES:
        assert 1 == sum(line.startswith(f"| `{route.key}` | ") for line in lines)


def test_every_key_of_the_configuration_says_what_it_means():
    rows = f"{configuration.deployment()}\n{configuration.agent_file()}".splitlines()
    keys = [row for row in rows if row.startswith("| `")]
    assert len(keys) > 50
    assert [] == [key for key in keys if key.endswith("|  |")]


def test_every_field_of_the_api_says_what_it_means():
    rows = [row for row in f"{api.operations()}\n{api.objects()}".splitlines() if row[:3] == "| `"]
    assert len(rows) > 200
    assert [] == [row for row in rows if row.endswith("|  |")]


def test_no_line_of_a_list_of_commands_is_cut():
    page = (PAGES / "cli.md").read_text(encoding="utf-8")
    listed = [line for line in page.splitlines() if line.startswith("* `")]
    assert not [line for line in listed if line.endswith("...")]
    assert "* `submit`: Submit a job and print its id; with --json, the job." in listed
