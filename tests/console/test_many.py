"""Much of everything: lines of output, jobs; and less of what moves."""

import time

import pytest
from playwright.sync_api import expect

from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from scripts.console.seeds import Seeds
from scripts.console.stores import Stores, many_jobs
from scripts.local.cloud import Cloud
from scripts.local.people import Person, add_person
from tests.console.conftest import LINES, Open

JOBS = 500
MOVING = """() => [...document.querySelectorAll('*')].filter(element => {
  const {transitionDuration, animationName, animationDuration} = getComputedStyle(element);
  const longest = text => Math.max(...text.split(',').map(parseFloat));
  const animated = animationName !== 'none' && longest(animationDuration) > 0.01;
  return animated || longest(transitionDuration) > 0.01;
}).length"""


@pytest.fixture(name="keeper", scope="module")
def _keeper(cloud: Cloud) -> Person:
    """An admin of a tenant with many jobs."""
    many_jobs(Stores(cloud, "other"), JOBS + 1)
    return add_person(cloud, "keeper", "admin", "other")


def test_all_lines_of_a_long_output_are_shown_and_searched(as_role: Open, seeds: Seeds):
    tab = as_role("reader", f"jobs/{seeds.jobs['long']}")
    page = tab.page
    output = page.get_by_role("region", name="Output")
    lines = output.locator(".line")
    expect(lines.last).to_contain_text(f"document {LINES} is indexed")
    page.get_by_role("button", name="Show from the beginning").click()
    expect(lines).to_have_count(LINES)
    expect(lines.first).to_contain_text("document 1 is indexed")
    expect(lines.last).to_contain_text(f"document {LINES} is indexed")
    page.get_by_label("Search the output").fill(f"document {LINES // 2} ")
    expect(page.get_by_text("1 of 1", exact=True)).to_be_visible()
    expect(output.locator("mark")).to_have_text(f"document {LINES // 2} ")
    expect(output.locator("mark")).to_be_in_viewport()


def test_levels_of_a_handlers_log_are_marked_and_chosen(as_role: Open, stores: Stores):
    now_ms = int(time.time() * 1000)
    steps = [
        Step(State.PENDING, now_ms, 0, "submitted"),
        Step(State.ACTIVE, now_ms, 1, "started", "i-0a51c2f6b1e0d7a11"),
        Step(State.COMPLETED, now_ms, 1, "exit code 0", records=4),
    ]
    head = stores.put(steps, exit_code=0, type="sync", params={})
    said = ["printed", "INFO begun", "WARNING slow", "ERROR down"]
    stores.write_levels(head, list(zip([None, "info", "warning", "error"], said, strict=True)))
    page = as_role("reader", f"jobs/{head.job_id}").page
    lines = page.get_by_role("region", name="Output").locator(".line")
    expect(lines.locator(".said")).to_have_text(said)
    expect(lines.locator(".stream")).to_have_text(["err", "info", "warning", "error"])
    page.get_by_label("Level").select_option(label="warning and above")
    expect(lines.locator(".said")).to_have_text(said[2:])
    page.get_by_label("Level").select_option("critical")
    expect(page.get_by_text("No output of the level critical or above.")).to_be_visible()
    page.get_by_label("Level").select_option(label="All output")
    expect(lines.locator(".said")).to_have_text(said)


def test_five_hundred_jobs_are_one_page(open_tab: Open, keeper: Person):
    tab = open_tab()
    tab.log_in(keeper, "jobs?page=500")
    page = tab.page
    rows = page.get_by_role("region", name="Jobs").locator("tbody tr")
    expect(rows).to_have_count(JOBS)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(rows.nth(0).get_by_role("link").first).to_be_focused()
    lists = [path for path in tab.watch.paths() if path.endswith("/v1/jobs")]
    assert len(lists) >= JOBS // 100
    page.get_by_role("button", name="Load more").click()
    expect(rows).to_have_count(JOBS + 1)


def test_nothing_moves_for_who_does_not_want_it(as_role: Open, seeds: Seeds):
    tab = as_role("admin", reduced_motion="reduce")
    for route in ("", f"jobs/{seeds.jobs['active']}", "queues/default"):
        tab.go(route)
        assert 0 == tab.page.evaluate(MOVING), route
