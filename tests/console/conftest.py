"""Fixtures of the console's tests: one deployment, a browser, a fresh context for each test.

A deployment takes longer than most tests together, so the tests of all processes share one. Each
acts on jobs and agents of its own; those of `seeds` stay as they are.
"""

import fcntl
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from joblane.deployment.names import PLATFORM
from scripts.console.api import Api
from scripts.console.browser import WAIT_MS, Console, chromium
from scripts.console.seeds import LOG_LINES, Seeds, seed
from scripts.console.stores import Stores
from scripts.local.cloud import Cloud, running_cloud
from scripts.local.deploy import deploy_directly
from scripts.local.people import Person, add_people, add_person
from tests.support.depth import budget
from tests.support.watch import Watch

Open = Callable[..., "Tab"]

LINES = budget(3_000, LOG_LINES)
"""Of the job `long`; the console reads a thousand at once."""


class Tab(Console):
    """The console in a tab of its own, with a watch."""

    watch: Watch


@dataclass
class Shared:
    """What the processes of a test run share."""

    cloud: Cloud
    seeds: Seeds
    people: dict[str, Person]
    """One user for each role, and one in a tenant without jobs."""


@pytest.fixture(name="shared", scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory, process: int | None) -> Iterator[Shared]:
    """One deployment for all processes: the first makes it, and ends it when no other uses it."""
    folder = tmp_path_factory.getbasetemp()
    if process is not None:
        folder = folder.parent
    with (folder / "making").open("w") as making, (folder / "using").open("w") as using:
        fcntl.flock(making, fcntl.LOCK_EX)
        fcntl.flock(using, fcntl.LOCK_SH)
        file = folder / "shared"
        if file.exists():
            fcntl.flock(making, fcntl.LOCK_UN)
            shared: Shared = pickle.loads(file.read_bytes())  # noqa: S301 - of this test run
            yield shared
            _end_agents(shared.cloud)
            return
        with running_cloud(folder / "run", make=deploy_directly) as cloud:
            people = {person.name: person for person in add_people(cloud)}
            people["newcomer"] = add_person(cloud, "newcomer", "admin", "small")
            shared = Shared(cloud, seed(cloud, LINES), people)
            file.write_bytes(pickle.dumps(_without_processes(shared)))
            fcntl.flock(making, fcntl.LOCK_UN)
            yield shared
            fcntl.flock(using, fcntl.LOCK_EX)
            _end_agents(cloud)


def _without_processes(shared: Shared) -> Shared:
    """As another process sees it, whose children they are not."""
    ministack = shared.cloud.ministack
    ministack = replace(ministack, process=replace(ministack.process, child=None))
    return replace(shared, cloud=replace(shared.cloud, ministack=ministack, agents={}))


def _end_agents(cloud: Cloud) -> None:
    for name in list(cloud.agents):
        cloud.kill_agent(name)  # they would wait for their jobs, which sleep for an hour


@pytest.fixture(name="cloud", scope="session")
def _cloud(shared: Shared) -> Cloud:
    return shared.cloud


@pytest.fixture(name="seeds", scope="session")
def _seeds(shared: Shared) -> Seeds:
    return shared.seeds


@pytest.fixture(name="people", scope="session")
def _people(shared: Shared) -> dict[str, Person]:
    return shared.people


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


@pytest.fixture(name="answers", scope="session")
def _answers() -> dict[str, str]:
    """What the issuer has answered with a token, by the name of the person."""
    return {}


@pytest.fixture(name="as_role")
def _as_role(open_tab: Open, people: dict[str, Person], answers: dict[str, str]) -> Open:
    """Opens the console logged in as the person of a role, at a page.

    Only the first time by the issuer's pages, which test_login.py is about.
    """

    def as_role(role: str, route: str = "", **options: Any) -> Tab:
        tab = open_tab(**options)
        if role in answers:
            come_back(tab, answers[role], route)
        else:
            with tab.page.expect_response("**/oauth2/token") as answered:
                tab.log_in(people[role], route)
            answers[role] = answered.value.text()
        return tab

    return as_role


COME_BACK = "?code=once&state=once"
BEFORE = (
    """if (location.search === %s) sessionStorage.setItem('joblane.login', JSON.stringify(%s))"""
)


def come_back(tab: Tab, answer: str, route: str) -> None:
    """Open the page as if the issuer had just sent the reader back to it; `answer` has a token."""
    pending = {"state": "once", "verifier": "", "hash": f"#/{route}"}
    tab.page.add_init_script(BEFORE % (json.dumps(COME_BACK), json.dumps(pending)))
    tab.page.route(
        "**/oauth2/token",
        lambda asked: asked.fulfill(body=answer, content_type="application/json"),
        times=1,
    )
    tab.page.goto(f"{tab.url}{COME_BACK}")
    expect(tab.page.get_by_role("navigation", name="Pages")).to_be_visible()
    tab.wait()
