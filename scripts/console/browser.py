"""A person at the console: opens it in Chromium and logs in on the user pool's own page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from scripts.local.errors import LocalError
from scripts.local.people import Person


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium without a window. Raises LocalError when it is not installed."""
    program = shutil.which("chromium")
    if program is None:
        raise LocalError("chromium is not on PATH; scripts/browser-deps installs it")
    # Root has no user namespace of its own that Chromium's sandbox would need.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


def sign_in(page: Page, person: Person) -> None:
    """Fill in the form of MiniStack's user pool, which stands in for Cognito's page."""
    page.get_by_label("Username").fill(person.name)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign in").click()
