"""docs/STATES.md says what the table says."""

from joblane.lifecycle import TABLE
from scripts.docs.states import FILE, render


def test_the_page_is_what_the_table_says():
    assert render() == FILE.read_text(encoding="utf-8"), "run scripts/states"


def test_every_transition_has_its_line():
    lines = render().splitlines()
    for (state, event), to in TABLE.items():
        assert 1 == sum(line.startswith(f"| {state} | {event} | {to} | ") for line in lines)
