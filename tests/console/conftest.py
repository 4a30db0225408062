"""Fixtures of the console's tests: one deployment, one browser, a fresh context for each test.

A deployment takes most of a minute where it is synthesized anew, so all tests share one. Each test
acts on jobs and agents of its own; those of `seeds` stay as they are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from joblane.deployment.names import PLATFORM
from scripts.console.api import Api
from scripts.console.browser import WAIT_MS, Console, chromium
from scripts.console.seeds import Seeds, seed
from scripts.console.stores import Stores
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.people import Person, add_people, add_person
from tests.support.watch import Watch

Open = Callable[..., "Tab"]


class Tab(Console):
    """The console in a tab of its own, with a watch."""

    watch: Watch


@pytest.fixture(name="cloud", scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with running_cloud(tmp_path_factory.mktemp("console") / "run", longest_poll_s=1) as cloud:
        yield cloud
        for name in list(cloud.agents):
            cloud.kill_agent(name)  # they would wait for their jobs, which sleep for an hour


@pytest.fixture(name="seeds", scope="session")
def _seeds(cloud: Cloud) -> Seeds:
    return seed(cloud)


@pytest.fixture(name="people", scope="session")
def _people(cloud: Cloud) -> dict[str, Person]:
    """One user for each role, and one in a tenant without jobs."""
    people = {person.name: person for person in add_people(cloud)}
    return {**people, "newcomer": add_person(cloud, "newcomer", "admin", "small")}


@pytest.fixture(name="api", scope="session")
def _api(cloud: Cloud) -> Iterator[Api]:
    """The API as tenant `demo` in the role admin."""
    api = Api(cloud)
    yield api
    api.close()


@pytest.fixture(name="platform", scope="session")
def _platform(cloud: Cloud) -> Iterator[Api]:
    """The API as the role platform."""
    api = Api(cloud, PLATFORM)
    yield api
    api.close()


@pytest.fixture(name="stores", scope="session")
def _stores(cloud: Cloud) -> Stores:
    return Stores(cloud)


@pytest.fixture(name="browser", scope="session")
def _browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="open_tab")
def _open_tab(browser: Browser, cloud: Cloud) -> Iterator[Open]:
    """Opens the console in a context of its own; at the end no page may have done any wrong."""
    tabs: list[Tab] = []

    def open_tab(**options: Any) -> Tab:
        tabs.append(new_tab(browser, cloud, **options))
        return tabs[-1]

    yield open_tab
    for tab in tabs:
        tab.watch.check()
        tab.page.context.close()


def new_tab(browser: Browser, cloud: Cloud, *, clocked: bool = False, **options: Any) -> Tab:
    """A tab in a context of its own; `clocked`: whose clock and timers the test can advance."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(WAIT_MS)
    tab = Tab(context.new_page(), cloud.url)
    tab.watch = Watch(context, cloud.endpoint)
    if clocked:
        tab.page.clock.install()
    return tab


@pytest.fixture(name="as_role")
def _as_role(open_tab: Open, people: dict[str, Person]) -> Open:
    """Opens the console logged in as the person of a role, at a page."""

    def as_role(role: str, route: str = "", **options: Any) -> Tab:
        tab = open_tab(**options)
        tab.log_in(people[role], route)
        return tab

    return as_role
