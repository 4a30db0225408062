"""Every page: accessible in both colour schemes, and no wider than a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, ViewportSize, expect

from scripts.console.seeds import Seeds
from scripts.local.cloud import Cloud
from scripts.local.people import Person
from tests.console.conftest import Tab, new_tab
from tests.support.axe import Contrasts, violations
from tests.support.depth import DEEP

OF_A_TENANT = (
    "",
    "jobs",
    "jobs?state=failed",
    "jobs/{completed}",
    "jobs/{attempts}",
    "jobs/{active}",
    "jobs/{blocked}",
    "jobs/{waiting}",
    "jobs/{long}",
    "submit",
    "submit?from={completed}",
    "groups",
    "groups/{partial_failure}",
    "groups/{processing}",
    "groups/{array}",
    "groups/{array}?indices=0,3-5",
    "schedules",
    "schedules/nightly",
    "schedules/poll",
    "queues",
    "queues/default",
    "dead",
    "conditions",
    "keys",
    "keys/{key}",
    "types",
    "types/sync-tickets",
    "audit",
    "settings",
)
OF_THE_PLATFORM = ("", "queues", "queues/bulk", "agents", "agents/web-1", "fleets", "audit")
EMPTY = ("", "jobs", "groups", "schedules", "dead", "conditions", "keys", "types", "audit")

PHONE: ViewportSize = {"width": 360, "height": 740}
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
WALL: ViewportSize = {"width": 2560, "height": 1300}

WIDER = """() => [
    document.scrollingElement, ...document.querySelectorAll('.scroll, .output .actions')
  ].filter(({scrollWidth, clientWidth}) => scrollWidth > clientWidth)
  .map(({tagName, ariaLabel, scrollWidth, clientWidth}) =>
    `${ariaLabel ?? tagName}: ${scrollWidth} of ${clientWidth}`)"""
"""The page, and tables and controls in it, that a reader would have to scroll sideways."""


@pytest.fixture(name="tabs", scope="module")
def _tabs(browser: Browser, cloud: Cloud, people: dict[str, Person]) -> Iterator[dict[str, Tab]]:
    """A tab for each person, which all tests of this file share: each looks at a page only."""
    tabs: dict[str, Tab] = {}
    for name in ("admin", "platform", "newcomer"):
        tabs[name] = new_tab(browser, cloud)
        tabs[name].log_in(people[name])
    yield tabs
    for tab in tabs.values():
        tab.page.context.close()


@pytest.fixture(name="contrasts", scope="module")
def _contrasts() -> Contrasts:
    return Contrasts()


@pytest.mark.parametrize(
    ("person", "route"),
    [
        *(("admin", route) for route in OF_A_TENANT),
        *(("platform", route) for route in OF_THE_PLATFORM),
        *(("newcomer", route) for route in EMPTY),
    ],
)
def test_a_page_is_accessible_in_both_schemes_and_at_every_width(
    tabs: dict[str, Tab], seeds: Seeds, contrasts: Contrasts, person: str, route: str
):
    """By default the large width is that of the first page: all have the same frame."""
    tab = tabs[person]
    page = tab.page
    tab.go(route.format(**seeds.names()))
    assert [] == violations(page)
    assert [] == contrasts.violations(page)
    page.emulate_media(color_scheme="dark")
    assert [] == contrasts.violations(page)
    page.emulate_media(color_scheme="light")
    assert [] == page.evaluate(WIDER)
    for size in (PHONE, WALL) if DEEP or route == "" else (PHONE,):
        page.set_viewport_size(size)
        assert [] == page.evaluate(WIDER), f"wider than {size['width']} pixels"
    page.set_viewport_size(DESKTOP)
    tab.watch.check()


@pytest.mark.parametrize("size", [DESKTOP, {"width": 390, "height": 800}], ids=["desktop", "phone"])
def test_the_output_of_a_job_is_in_view_on_load(
    tabs: dict[str, Tab], seeds: Seeds, size: ViewportSize
):
    """Over the whole width, with its first lines and without scrolling, however many there are."""
    tab = tabs["admin"]
    page = tab.page
    page.set_viewport_size(size)
    output = page.get_by_role("region", name="Output")
    for name in ("active", "completed", "dead", "long"):
        tab.go(f"jobs/{seeds.jobs[name]}")
        assert 0 == page.evaluate("scrollY")
        box, lines = bounds(output), output.locator(".line")
        assert bounds(page.get_by_role("main"))["width"] - box["width"] < 100, name
        assert bounds(lines.first)["y"] + bounds(lines.first)["height"] < size["height"] * 0.7, name
        assert box["y"] + box["height"] < size["height"], name
        if name == "long":
            assert box["height"] > size["height"] * 0.4
    page.set_viewport_size(DESKTOP)


def bounds(place: Locator) -> FloatRect:
    """Where it is in the window."""
    box = place.bounding_box()
    assert box is not None
    return box


def test_a_job_offers_what_one_does_in_its_state_and_the_rest_in_a_menu(
    tabs: dict[str, Tab], seeds: Seeds
):
    tab = tabs["admin"]
    page, header = tab.page, tab.page.get_by_role("main").locator("header")
    tab.go(f"jobs/{seeds.jobs['dead']}")
    expect(header.get_by_role("link")).to_have_text("Submit again with changes")
    names = header.locator(".actions").get_by_role("button")
    expect(names).to_have_text(["Retry"])
    header.get_by_text("More").click()
    expect(names).to_have_text(["Retry", "Dismiss", "Resubmit", "Hide", "Delete"])
    page.keyboard.press("Escape")
    expect(names).to_have_text(["Retry"])
    tab.go(f"jobs/{seeds.jobs['active']}")
    expect(names).to_have_text(["Cancel"])


def test_a_running_job_shows_what_it_uses(tabs: dict[str, Tab], seeds: Seeds):
    """From the second heartbeat after its start on."""
    tab = tabs["admin"]
    tab.go(f"jobs/{seeds.jobs['active']}")
    usage = tab.page.locator("section", has=tab.page.get_by_role("heading", name="Usage"))
    expect(usage).to_contain_text("CPUs in use")
    expect(usage).to_contain_text("of 512 MiB")


def test_lists_show_the_state_on_a_phone_whatever_the_command(tabs: dict[str, Tab]):
    """In the cell of the name, which is in view; in a window with room it has a column."""
    tab = tabs["admin"]
    page = tab.page
    badges = page.locator("tbody .badge:visible")
    for size, slim in ((DESKTOP, False), (PHONE, True)):
        page.set_viewport_size(size)
        for route in ("jobs", "groups", ""):
            tab.go(route)
            expect(badges.first).to_be_visible()
            if route != "":
                assert page.locator("tbody tr").count() == badges.count()
                places = [bounds(badge) for badge in badges.all()]
                assert max(box["x"] + box["width"] for box in places) < size["width"]
                assert (page.locator(".slim:visible").count() > 0) == slim
    page.set_viewport_size(DESKTOP)
