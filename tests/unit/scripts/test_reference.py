"""The generated parts of docs/reference are what the code says."""

import pytest

from joblane.contract.routes import ROUTES
from joblane.state.lifecycle import TABLE, State
from scripts.docs import api, configuration, roles, states
from scripts.docs.reference import PAGES, PARTS, files, with_parts


def test_pages_are_what_the_code_says():
    made = files()
    assert made == {path: path.read_text("utf-8") for path in made}, "run scripts/reference"


def test_every_page_of_the_reference_with_marks_has_its_parts():
    for page in PAGES.glob("*.md"):
        marks = page.read_text(encoding="utf-8").count(": written by scripts/reference -->")
        assert marks == len(PARTS.get(page.name, {})), page.name


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
