"""Submit, look, cancel and find again with the keyboard alone."""

import pytest
from playwright.sync_api import Locator, Page, expect

from scripts.console.api import Api, wait_for_state
from tests.console.conftest import Open

MOST_TABS = 60


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the focus is there."""
    expect(target).to_be_visible()
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{MOST_TABS} tabs do not lead to {target}")


@pytest.mark.usefixtures("seeds")  # which have agents
def test_one_flow_without_a_mouse(as_role: Open, api: Api):
    tab = as_role("developer")
    page, keyboard = tab.page, tab.page.keyboard
    keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_).to_contain_text("Go to Jobs")
    keyboard.press("Escape")
    expect(help_).to_have_count(0)

    keyboard.press("n")
    expect(tab.heading).to_have_text("New job")
    expect(tab.heading).to_be_focused()
    tab_to(page, page.get_by_label("Line for a shell"))
    keyboard.type("echo by hand; sleep 600")
    tab_to(page, page.get_by_label("Name", exact=True))
    keyboard.type("by-keyboard")
    tab_to(page, page.get_by_role("button", name="Submit", exact=True))
    keyboard.press("Enter")

    expect(tab.heading).to_have_text("by-keyboard")
    job_id = page.url.rpartition("/")[2]
    expect(page.get_by_role("region", name="Output")).to_contain_text("by hand")
    keyboard.press("c")
    dialog = page.get_by_role("dialog", name="Cancel the job?")
    expect(dialog.get_by_role("button", name="Cancel", exact=True)).to_be_focused()
    keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    wait_for_state(api, job_id, "cancelled")

    keyboard.press("g")
    keyboard.press("j")
    expect(tab.heading).to_have_text("Jobs")
    keyboard.press("/")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    keyboard.type("by-keyboard")
    keyboard.press("Enter")
    row = page.get_by_role("row", name="by-keyboard")
    expect(row).to_have_count(1)
    tab_to(page, page.get_by_role("region", name="Jobs"))
    keyboard.press("j")
    expect(row.get_by_role("link").first).to_be_focused()
    keyboard.press("x")
    expect(row.get_by_role("checkbox")).to_be_checked()
    keyboard.press("Enter")
    expect(tab.heading).to_have_text("by-keyboard")
    assert page.url.endswith(job_id)
