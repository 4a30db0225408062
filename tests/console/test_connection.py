"""A page that nobody sees asks nothing; one without a connection says so and goes on by itself."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from scripts.local.cloud import Cloud
from scripts.local.people import Person
from tests.console.conftest import Tab, new_tab

HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event('visibilitychange'));
}"""

MINUTE = "01:00"


@pytest.fixture(name="tab", scope="module")
def _tab(browser: Browser, cloud: Cloud, people: dict[str, Person]) -> Iterator[Tab]:
    """A tab whose clock the tests advance; each leaves it visible and connected."""
    tab = new_tab(browser, cloud, clocked=True)
    tab.log_in(people["admin"])
    yield tab
    tab.page.context.close()


def idle(page: Page) -> None:
    """Wait until no request is under way."""
    page.wait_for_load_state("networkidle")


def test_a_hidden_page_asks_nothing_and_a_visible_one_goes_on(tab: Tab):
    page, watch = tab.page, tab.watch
    page.evaluate(HIDE, True)
    idle(page)
    before = len(watch.requests)
    page.clock.run_for(MINUTE)
    idle(page)
    assert [] == [path for path in watch.paths(before) if "/v1/" in path]
    with page.expect_response("**/v1/summary"):
        page.evaluate(HIDE, False)
    watch.check()


def test_a_lost_connection_is_shown_and_comes_back_by_itself(tab: Tab):
    page = tab.page
    notice = page.get_by_text("No connection to the API since")
    with tab.watch.expecting(r"net::ERR_INTERNET_DISCONNECTED"):
        page.context.set_offline(True)
        page.clock.run_for(MINUTE)
        expect(notice).to_be_visible()
        expect(page.get_by_role("table").first).to_contain_text("default")
        page.context.set_offline(False)
        expect(notice).to_have_count(0)
        tab.wait()
    tab.watch.check()


def test_an_api_that_fails_is_asked_less_often_and_is_back_without_a_reload(tab: Tab):
    page = tab.page
    idle(page)
    page.route("**/v1/**", lambda route: route.abort())
    with tab.watch.expecting(r"net::ERR_FAILED"):
        before = len(tab.watch.requests)
        page.clock.run_for(MINUTE)
        expect(page.get_by_text("No connection to the API since")).to_be_visible()
        failed = len(tab.watch.requests) - before
        assert failed > 0
        page.unroute("**/v1/**")
        page.clock.run_for(MINUTE)
        expect(page.get_by_text("No connection to the API since")).to_have_count(0)
        tab.wait()
    tab.watch.check()
