"""A person at the console: opens it in Chromium and logs in on the user pool's own page."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page, Request, expect, sync_playwright

from scripts.local.errors import LocalError
from scripts.local.people import Person

WAIT_MS = 30_000
"""For what takes milliseconds on an idle machine: more than any load of it takes."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium without a window. Raises LocalError when it is not installed.

    The program that has none takes two thirds of the CPU time of the one that shows none.
    """
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        raise LocalError("Chromium is not on PATH; scripts/browser-deps installs it")
    # Root has no user namespace of its own that Chromium's sandbox would need.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


class Console:
    """The console in a tab of a browser."""

    def __init__(self, page: Page, api_url: str) -> None:
        """Use the console of the deployment whose API is at `api_url`, without a slash."""
        self.page = page
        self.api_url = api_url
        self._open: set[Request] = set()
        page.on("request", self._note_begin)
        page.on("requestfinished", self._note_end)
        page.on("requestfailed", self._note_end)
        self.url = f"{api_url}/console"

    def _note_begin(self, request: Request) -> None:
        self._open.add(request)

    def _note_end(self, request: Request) -> None:
        self._open.discard(request)

    @property
    def heading(self) -> Locator:
        """The title of the page that is shown."""
        return self.page.get_by_role("main").get_by_role("heading", level=1)

    def log_in(self, person: Person, route: str = "") -> None:
        """Open a page of the console, and log in; returns when the page has its data."""
        self.page.goto(f"{self.url}#/{route}")
        self.page.get_by_role("button", name="Log in").click()
        sign_in(self.page, person)
        expect(self.page.get_by_role("navigation", name="Pages")).to_be_visible()
        self.wait()

    def go(self, route: str = "") -> None:
        """Go to another page of the console without loading it anew, and wait for its data."""
        self.page.evaluate("route => { location.hash = `#/${route}` }", route)
        self.wait()

    def wait(self) -> None:
        """Wait until the page of the present address is drawn, with its data."""
        expect(self.heading).to_be_visible()
        for words in ("Loading…", "Reading…"):
            expect(self.page.get_by_text(words, exact=True)).to_have_count(0)
        # What it reads beside that: why a job waits, say.
        ends = time.monotonic() + WAIT_MS / 1000
        while self._open:
            if time.monotonic() > ends:
                raise LocalError(f"no answer from {[request.url for request in self._open]}")
            self.page.wait_for_timeout(20)


def sign_in(page: Page, person: Person) -> None:
    """Fill in the form of MiniStack's user pool, which stands in for Cognito's page."""
    page.get_by_label("Username").fill(person.name)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign in").click()
