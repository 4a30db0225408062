"""Much of everything: lines of output, jobs; and less of what moves."""

import re
import time

import pytest
from playwright.sync_api import Route, expect

from joblane.group.array import as_ranges
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from scripts.console.seeds import Seeds
from scripts.console.stores import Stores, many_jobs
from scripts.local.cloud import Cloud
from scripts.local.people import Person, add_person
from tests.console.conftest import LINES, Open
from tests.console.test_pages import DESKTOP, PHONE, WIDER
from tests.support.axe import violations

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


def test_ten_thousand_members_are_a_grid_of_few_elements(as_role: Open, seeds: Seeds):
    """As the API answers for them; a page of its members is what the table shows."""
    group, members = seeds.groups["array"], 10_000
    failed = ",".join(str(n) for n in range(5, 5000, 10))
    states = {"waiting": "9000-9999", "active": "8900-8999", "dead": failed}
    rest = set(range(8900)) - set(range(5, 5000, 10))
    indices = states | {"completed": as_ranges(rest)}
    counts = {"waiting": 1000, "active": 100, "dead": 500, "completed": len(rest)}

    def many(asked: Route) -> None:
        # A sample of the failures has indices that the group has not.
        answer = asked.fetch(url=re.sub(r"indices=[^&]*&", "", asked.request.url))
        page = answer.json()
        page["group"] |= {"members": members, "state": "processing", "array": {"size": members}}
        page |= {"indices": indices, "counts": counts, "failed_indices": failed}
        asked.fulfill(response=answer, json=page)

    tab = as_role("reader")
    page, main = tab.page, tab.page.get_by_role("main")
    page.route(re.compile(rf"/v1/groups/{group}\?"), many)
    tab.go(f"groups/{group}")
    grid = page.get_by_role("group", name=f"Grid of {members} members")
    expect(main).to_contain_text("8900 of 10000 have ended")
    assert 20 > grid.locator("*").count()
    for size in (PHONE, DESKTOP):
        page.set_viewport_size(size)
        expect(grid.locator("svg")).to_be_visible()
        assert [] == page.evaluate(WIDER)
        assert [] == violations(page)
    said = main.get_by_role("status")
    grid.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(said.filter(has_text="Index 9997: waiting")).to_be_visible()
    assert grid.evaluate("grid => grid.scrollTop") > 0
    page.keyboard.press("x")
    expect(said.filter(has_text="1 selected")).to_be_visible()
    expect(page.get_by_label("Indices", exact=True)).to_have_value("9997")
    page.keyboard.press("Home")
    expect(said.filter(has_text="Index 0: completed")).to_be_visible()
    expect(main).to_contain_text("50 of the 500 that failed are read")
    main.locator("summary", has_text="Indices by state").click()
    ranges = main.get_by_role("table", name="Indices by state").get_by_role("row")
    expect(ranges.filter(has_text="active")).to_contain_text("8900-8999")
    expect(ranges.filter(has_text="dead")).to_contain_text("and 440 more ranges")
    expect(main.get_by_role("button", name="Retry")).to_have_count(0)
    grid.focus()
    page.keyboard.press("Enter")
    expect(main.locator("header")).to_contain_text(f"index 0 of group {group}")


def test_nothing_moves_for_who_does_not_want_it(as_role: Open, seeds: Seeds):
    tab = as_role("admin", reduced_motion="reduce")
    for route in ("", f"jobs/{seeds.jobs['active']}", "queues/default"):
        tab.go(route)
        assert 0 == tab.page.evaluate(MOVING), route
