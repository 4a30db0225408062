"""Fixtures of the console's tests: one deployment, one browser, a fresh context for each test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from scripts.console.browser import chromium


@pytest.fixture(name="browser", scope="session")
def _browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser
