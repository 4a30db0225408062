"""docs/SECURITY.md says what the tables of roles and routes say."""

from joblane.routes import ROUTES
from scripts.docs.roles import BEGIN, END, FILE, page, render


def test_the_page_says_who_may_do_what():
    text = FILE.read_text(encoding="utf-8")
    assert (1, 1) == (text.count(BEGIN), text.count(END))
    assert page(text) == text, "run scripts/roles"


def test_every_route_has_its_line():
    lines = render().splitlines()
    for route in ROUTES:
        assert 1 == sum(line.startswith(f"| `{route.key}` | ") for line in lines)
